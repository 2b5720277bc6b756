#include "tests/reference/tokenizers.h"

#include <stdexcept>
#include <utility>

namespace kvd::reference {

namespace {

Tokens TokensOfPiece(const Lexicon& lexicon, std::string_view text) {
  if (lexicon.data.model == "gpt2") return BytePairTokens(lexicon, text);
  if (lexicon.data.model == "llama") return SentencePieceTokens(lexicon, text);
  if (lexicon.data.model == "t5") return UnigramTokens(lexicon, text);
  if (lexicon.data.model == "bert") return WordPieceTokens(lexicon, text);
  throw std::runtime_error(lexicon.data.model +
                           ": the reference does not implement this tokenizer");
}

// Returns the user-defined token with which the text begins; -1: none. The end token (eos) is
// ignored, because it counts as a control token even if its type is user-defined.
TokenId UserDefinedAt(const Lexicon& lexicon, std::string_view text) {
  for (const auto& [token_text, token] : lexicon.ids) {
    if (token == static_cast<TokenId>(lexicon.data.eos.value_or(0))) continue;
    if (lexicon.IsOfType(token, GgufTokenType::kUserDefined) && text.starts_with(token_text)) {
      return token;
    }
  }
  return -1;
}

}  // namespace

Tokens Tokenize(const Lexicon& lexicon, std::string_view text) {
  Tokens tokens;
  std::string piece;
  const auto end_piece = [&] {
    const Tokens more = TokensOfPiece(lexicon, piece);
    tokens.insert(tokens.end(), more.begin(), more.end());
    piece.clear();
  };
  while (!text.empty()) {
    const TokenId token = UserDefinedAt(lexicon, text);
    if (token < 0) {
      piece += text.front();
      text.remove_prefix(1);
      continue;
    }
    end_piece();
    tokens.push_back(token);
    text.remove_prefix(lexicon.data.tokens[static_cast<std::size_t>(token)].size());
  }
  end_piece();
  return tokens;
}

Lexicon::Lexicon(VocabularyData from) : data(std::move(from)) {
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    ids.emplace(data.tokens[i], static_cast<TokenId>(i));
  }
}

TokenId Lexicon::Find(const std::string& token_text) const {
  const auto found = ids.find(token_text);
  return found == ids.end() ? -1 : found->second;
}

bool Lexicon::IsOfType(TokenId token, GgufTokenType type) const {
  return data.token_types[static_cast<std::size_t>(token)] == static_cast<std::int32_t>(type);
}

}  // namespace kvd::reference
