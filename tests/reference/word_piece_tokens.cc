#include "tests/reference/characters.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {
namespace {

// Returns whether the character is always a separate word: ASCII characters except letters and
// digits, punctuation, and Chinese characters.
bool StandsAlone(char32_t c) {
  const bool is_ascii_symbol = c < 0x80 && ClassOf(c) == Class::kSymbol;
  const bool is_chinese = c >= 0x4e00 && c <= 0x9fff;
  return is_ascii_symbol || is_chinese || ClassOf(c) == Class::kPunctuation;
}

// Finds the longest token that begins with the code point at `begin` of the word. Returns the token
// and sets its end.
TokenId LongestToken(const Lexicon& lexicon, const std::vector<char32_t>& word, std::size_t begin,
                     std::size_t* end) {
  for (*end = word.size(); *end > begin; --*end) {
    std::string piece;
    for (std::size_t i = begin; i < *end; ++i) piece += Utf8(word[i]);
    if (const TokenId token = lexicon.Find(piece); token >= 0) return token;
  }
  return -1;
}

}  // namespace

std::vector<std::string> BertWords(std::string_view text) {
  std::vector<std::string> words;
  bool is_in_word = false;
  for (const char32_t original : CodePoints(text)) {
    // A Hangul syllable decomposes into consonants and vowels, which are also letters.
    const Class name = ClassOf(original);
    if (name == Class::kSpace) {
      is_in_word = false;
      continue;
    }
    if (name == Class::kControl || name == Class::kMark) continue;
    const bool is_alone = StandsAlone(original);
    if (!is_in_word || is_alone) words.emplace_back();
    words.back() += Utf8(LowerCase(WithoutAccent(original)));
    is_in_word = !is_alone;
  }
  return words;
}

Tokens WordPieceTokens(const Lexicon& lexicon, std::string_view text) {
  Tokens tokens;
  for (const std::string& word : BertWords(text)) {
    const std::vector<char32_t> characters = CodePoints("\u2581" + word);
    Tokens pieces;
    for (std::size_t begin = 0, end = 0; begin < characters.size(); begin = end) {
      pieces.push_back(LongestToken(lexicon, characters, begin, &end));
      if (pieces.back() >= 0) continue;
      pieces = {static_cast<TokenId>(*lexicon.data.unk)};
      break;
    }
    tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  }
  return tokens;
}

}  // namespace kvd::reference
