// ChatTexts: the texts of a model's file that formatting a chat needs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvd {

struct ChatTexts {
  // Chat templates by name; the name of tokenizer.chat_template is empty.
  std::vector<std::pair<std::string, std::string>> templates;
  // Texts of special tokens by name: "bos", "eos", ...
  std::vector<std::pair<std::string, std::string>> tokens;

  // Null if there is no such template or token.
  const std::string* FindTemplate(std::string_view name) const;
  const std::string* FindToken(std::string_view name) const;
};

}  // namespace kvd
