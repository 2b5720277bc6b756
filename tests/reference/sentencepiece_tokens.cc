#include <cstdio>

#include "tests/reference/characters.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {
namespace {

constexpr char32_t kSpace = 0x2581;

TokenId ByteToken(const Lexicon& lexicon, char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>",
                static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return lexicon.Find(text);
}

}  // namespace

Tokens SentencePieceTokens(const Lexicon& lexicon, std::string_view text) {
  if (text.empty()) return {};
  std::vector<std::string> symbols;
  if (lexicon.data.add_space_prefix.value_or(true)) symbols.push_back(Utf8(kSpace));
  for (const char32_t c : CodePoints(text)) symbols.push_back(Utf8(c == ' ' ? kSpace : c));
  for (;;) {
    TokenId best_token = -1;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const TokenId token = lexicon.Find(symbols[i] + symbols[i + 1]);
      if (token < 0) continue;
      const auto score = [&](TokenId id) {
        return lexicon.data.scores[static_cast<std::size_t>(id)];
      };
      if (best_token < 0 || score(token) > score(best_token)) {
        best_token = token;
        best = i;
      }
    }
    if (best_token < 0) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Tokens tokens;
  for (const std::string& symbol : symbols) {
    if (const TokenId token = lexicon.Find(symbol); token >= 0) {
      tokens.push_back(token);
      continue;
    }
    for (const char byte : symbol) tokens.push_back(ByteToken(lexicon, byte));
  }
  return tokens;
}

}  // namespace kvd::reference
