#include "text/chat/chat_texts.h"

namespace kvd {
namespace {

const std::string* FindByName(const std::vector<std::pair<std::string, std::string>>& texts,
                              std::string_view name) {
  for (const auto& [key, text] : texts) {
    if (key == name) return &text;
  }
  return nullptr;
}

}  // namespace

const std::string* ChatTexts::FindTemplate(std::string_view name) const {
  return FindByName(templates, name);
}

const std::string* ChatTexts::FindToken(std::string_view name) const {
  return FindByName(tokens, name);
}

}  // namespace kvd
