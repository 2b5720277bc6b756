#include <algorithm>
#include <stdexcept>

#include "tests/reference/characters.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {
namespace {

// Tries the following alternatives in this order
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// at `begin` and returns the end of the first match.
std::size_t EndOfWord(const std::vector<char32_t>& text, std::size_t begin) {
  for (const std::u32string_view suffix : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"}) {
    const std::size_t end = begin + suffix.size();
    if (end <= text.size() &&
        std::equal(suffix.begin(), suffix.end(), text.begin() + static_cast<std::ptrdiff_t>(begin)))
      return end;
  }
  const auto run = [&](std::size_t first, auto belongs) {
    while (first < text.size() && belongs(ClassOf(text[first]))) ++first;
    return first;
  };
  const std::size_t first = begin + (text[begin] == ' ' ? 1 : 0);
  const auto is = [](Class wanted) { return [wanted](Class found) { return found == wanted; }; };
  if (const std::size_t end = run(first, is(Class::kLetter)); end > first) return end;
  if (const std::size_t end = run(first, is(Class::kNumber)); end > first) return end;
  const auto is_other = [](Class found) {
    return found != Class::kSpace && found != Class::kLetter && found != Class::kNumber;
  };
  if (const std::size_t end = run(first, is_other); end > first) return end;
  const std::size_t end = run(begin, is(Class::kSpace));
  return end == text.size() || end - begin == 1 ? end : end - 1;
}

// Returns the index of "LEFT RIGHT" in the list of merges, or the length of the list if it is not
// there.
std::size_t RankOf(const Lexicon& lexicon, const std::string& left, const std::string& right) {
  const auto found = std::ranges::find(lexicon.data.merges, left + " " + right);
  return static_cast<std::size_t>(found - lexicon.data.merges.begin());
}

void MergeWord(const Lexicon& lexicon, std::vector<std::string>& symbols) {
  for (;;) {
    std::size_t best_rank = lexicon.data.merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::size_t rank = RankOf(lexicon, symbols[i], symbols[i + 1]);
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == lexicon.data.merges.size()) return;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

std::string ByteCharacterOf(unsigned char byte) {
  char32_t next = 0x100;
  for (unsigned other = 0; other <= byte; ++other) {
    const bool is_printable =
        (other >= 0x21 && other <= 0x7e) || (other >= 0xa1 && other <= 0xac) || other >= 0xae;
    if (other == byte) return Utf8(is_printable ? other : next);
    if (!is_printable) ++next;
  }
  return {};
}

std::vector<std::string> Gpt2Words(std::string_view text) {
  const std::vector<char32_t> code_points = CodePoints(text);
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < code_points.size();) {
    const std::size_t end = EndOfWord(code_points, begin);
    std::string& word = words.emplace_back();
    while (begin < end) word += Utf8(code_points[begin++]);
  }
  return words;
}

Tokens BytePairTokens(const Lexicon& lexicon, std::string_view text) {
  if (lexicon.data.pre != "gpt-2")
    throw std::runtime_error(lexicon.data.pre +
                             ": the reference implements only the splitting of gpt-2");
  Tokens tokens;
  for (const std::string& word : Gpt2Words(text)) {
    std::vector<std::string> symbols;
    for (const char byte : word) {
      symbols.push_back(ByteCharacterOf(static_cast<unsigned char>(byte)));
    }
    MergeWord(lexicon, symbols);
    for (const std::string& symbol : symbols) tokens.push_back(lexicon.Find(symbol));
  }
  return tokens;
}

}  // namespace kvd::reference
