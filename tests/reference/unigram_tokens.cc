// The Viterbi algorithm: finds the best division of every prefix of the text from left to right.
// The best division of a prefix is its last token, preceded by the best division of the text before
// that token.
#include <algorithm>
#include <limits>
#include <sstream>

#include "tests/reference/characters.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {
namespace {

constexpr double kUnknownPenalty = 10;

struct Way {
  double score = -std::numeric_limits<double>::infinity();
  std::size_t begin = 0;  // where the last token begins, in characters
  TokenId token = -1;
};

}  // namespace

std::string UnigramNormalized(std::string_view text) {
  std::string normalized, word;
  std::istringstream words{std::string(text)};
  while (std::getline(words, word, ' ')) {
    if (!word.empty()) normalized += "\u2581" + word;
  }
  return normalized;
}

Tokens UnigramTokens(const Lexicon& lexicon, std::string_view text) {
  const std::vector<char32_t> characters = CodePoints(UnigramNormalized(text));
  const double worst = static_cast<double>(
      *std::min_element(lexicon.data.scores.begin() + 3,
                        lexicon.data.scores.end()));  // without the pad, end and unknown tokens
  std::vector<Way> ways(characters.size() + 1);
  ways[0].score = 0;
  for (std::size_t begin = 0; begin < characters.size(); ++begin) {
    const auto offer = [&](std::size_t end, TokenId token, double score) {
      if (ways[begin].score + score > ways[end].score) {
        ways[end] = {.score = ways[begin].score + score, .begin = begin, .token = token};
      }
    };
    std::string piece;
    for (std::size_t end = begin + 1; end <= characters.size(); ++end) {
      piece += Utf8(characters[end - 1]);
      const TokenId token = lexicon.Find(piece);
      if (token >= 0 && lexicon.IsOfType(token, GgufTokenType::kNormal)) {
        offer(end, token,
              static_cast<double>(lexicon.data.scores[static_cast<std::size_t>(token)]));
      } else if (end == begin + 1) {
        offer(end, static_cast<TokenId>(*lexicon.data.unk), worst - kUnknownPenalty);
      }
    }
  }
  Tokens tokens;
  for (std::size_t end = characters.size(); end > 0; end = ways[end].begin) {
    const bool is_unknown = ways[end].token == static_cast<TokenId>(*lexicon.data.unk);
    const bool is_repeated = is_unknown && !tokens.empty() && tokens.back() == ways[end].token;
    if (!is_repeated) tokens.push_back(ways[end].token);
  }
  std::ranges::reverse(tokens);
  return tokens;
}

}  // namespace kvd::reference
