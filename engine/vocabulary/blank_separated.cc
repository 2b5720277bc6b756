#include "engine/vocabulary/blank_separated.h"

#include <string>

#include "base/unicode_tables.h"
#include "base/utf8.h"
#include "engine/vocabulary/white_space.h"

namespace kvd {
namespace {

// The tokenizer of the words counts the work of a word from zero, so that short words never add up
// to a step; the characters are therefore counted here with the work for them.
constexpr std::size_t kUnitsPerCharacter = 64;
constexpr std::size_t kUnitsPerWord = 512;

}  // namespace

Status BlankSeparated::Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                              WorkControl& work) const {
  WorkMeter meter(work);
  std::string word;
  auto end_word = [&]() -> Status {
    if (word.empty()) return {};
    KVD_CHECK_OK(meter.Spend(kUnitsPerWord));
    KVD_CHECK_OK(words_->Append(word, at_start, tokens, work));
    word.clear();
    return {};
  };
  while (!text.empty()) {
    KVD_CHECK_OK(meter.Spend(kUnitsPerCharacter));
    const std::size_t bytes = WellFormedBytes(text.substr(0, 4));
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    text.remove_prefix(character.size());
    if (bytes == 0) {
      word.append(character);
      continue;
    }
    const std::uint32_t code_point = CodePointOf(character);
    if (IsUnicodeWhiteSpace(code_point)) {
      KVD_CHECK_OK(end_word());
    } else if (lowercase_) {
      AppendUtf8(LowerCase(code_point), word);
    } else {
      word.append(character);
    }
  }
  return end_word();
}

}  // namespace kvd
