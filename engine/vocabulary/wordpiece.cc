// The tokenizer makes one pass over the characters: each character is appended to the current word,
// ends the current word, or is dropped. A word is looked up as soon as it ends.
#include "engine/vocabulary/wordpiece.h"

#include <utility>

#include "base/unicode_tables.h"
#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/well_formed_text.h"

namespace kvd {
namespace {

constexpr std::size_t kCleaningUnits = 16;  // per character
constexpr std::size_t kLookupUnits = 64;

// ASCII characters other than letters, digits, white space and control characters.
bool IsAsciiSymbol(std::uint32_t c) {
  if (c <= 0x20 || c >= 0x7f) return false;
  bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return !letter && !(c >= '0' && c <= '9');
}

// Whether the character is in one of the ranges that BERT's own tokenizer and llama.cpp treat as
// Chinese.
bool IsChinese(std::uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
         (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0x2f800 && c <= 0x2fa1f);
}

}  // namespace

Result<std::unique_ptr<WordPiece>> WordPiece::Create(const TokenTable& tokens, TokenId unk,
                                                     WordPieceOptions options) {
  std::vector<TokenId> ids(tokens.token_count());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
  KVD_TRY(TokenTrie trie, TokenTrie::Create(tokens, ids));
  return std::unique_ptr<WordPiece>(new WordPiece(std::move(trie), unk, options));
}

Status WordPiece::Append(std::string_view text, bool /*at_start*/, std::vector<TokenId>& tokens,
                         WorkControl& work) const {
  WorkMeter meter(work);
  std::string word(kEscapedSpace);
  auto end_word = [&]() -> Status {
    if (word.size() > kEscapedSpace.size()) KVD_CHECK_OK(AppendWord(word, tokens, meter));
    word.resize(kEscapedSpace.size());
    return {};
  };
  while (!text.empty()) {
    KVD_CHECK_OK(meter.Spend(kCleaningUnits));
    std::size_t bytes = WellFormedBytes(text);
    std::uint32_t c = bytes == 0 ? kReplacementCodePoint : CodePointOf(text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
    if (options_.strip_accents) c = DecompositionBase(c);
    if (IsUnicodeWhiteSpace(c)) {
      KVD_CHECK_OK(end_word());
      continue;
    }
    CharacterClass name = ClassOf(c);
    if (c == kReplacementCodePoint || name == CharacterClass::kControl) continue;
    if (options_.strip_accents && name == CharacterClass::kMark) continue;
    bool alone = name == CharacterClass::kPunctuation || IsAsciiSymbol(c) || IsChinese(c);
    if (alone) KVD_CHECK_OK(end_word());
    AppendUtf8(options_.lowercase ? LowerCase(c) : c, word);
    if (alone) KVD_CHECK_OK(end_word());
  }
  return end_word();
}

Status WordPiece::AppendWord(std::string_view word, std::vector<TokenId>& tokens,
                             WorkMeter& meter) const {
  std::size_t before = tokens.size();
  while (!word.empty()) {
    TokenTrie::Match match = trie_.LongestPrefix(word);
    KVD_CHECK_OK(meter.Spend(kLookupUnits + match.visited));
    if (match.bytes == 0) {
      tokens.resize(before);
      if (unk_ != kNoToken) tokens.push_back(unk_);
      return {};
    }
    tokens.push_back(match.token);
    word.remove_prefix(match.bytes);
  }
  return {};
}

std::string CleanUpSpaces(std::string_view text) {
  std::string marks;  // text without the spaces before marks; lone apostrophes are handled next
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool mark = text[i] == '?' || text[i] == '!' || text[i] == '.' || text[i] == ',';
    if (mark && i > 0 && text[i - 1] == ' ') marks.pop_back();
    marks.push_back(text[i]);
  }
  std::string apostrophes;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    bool lone = marks[i] == '\'' && apostrophes.ends_with(' ') && i + 1 < marks.size() &&
                marks[i + 1] == ' ';
    if (lone) apostrophes.pop_back();
    apostrophes.push_back(marks[i]);
    if (lone) ++i;  // skip the space after the apostrophe
  }
  std::string cleaned;
  for (std::size_t i = 0; i < apostrophes.size(); ++i) {
    std::string_view rest = std::string_view(apostrophes).substr(i);
    bool contraction = rest.starts_with("'s") || rest.starts_with("'m") ||
                       rest.starts_with("'re") || rest.starts_with("'ve");
    if (contraction && cleaned.ends_with(' ')) cleaned.pop_back();
    cleaned.push_back(apostrophes[i]);
  }
  return cleaned;
}

}  // namespace kvd
