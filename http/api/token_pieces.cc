// A text of twice the same token has twice its piece, the first time perhaps without the space in
// front; so the piece is the second half of the text, with the middle byte if there is one.
#include "http/api/token_pieces.h"

#include <algorithm>
#include <array>

namespace kvd::http {

Await<Result<std::map<TokenId, std::string>>> PiecesOf(DaemonSession& session,
                                                       std::span<const TokenId> tokens) {
  std::vector<TokenId> different(tokens.begin(), tokens.end());
  std::ranges::sort(different);
  different.erase(std::ranges::unique(different).begin(), different.end());
  std::map<TokenId, std::string> pieces;
  for (const TokenId token : different) {
    const std::array<TokenId, 2> twice = {token, token};
    const std::span<const TokenId> both(twice);
    KVD_CO_TRY(const std::string text, co_await session.Detokenize(both, wire::kFlagSpecial));
    pieces.emplace(token, text.substr(text.size() / 2));
  }
  co_return pieces;
}

Await<Result<std::string>> JoinedPieces(DaemonSession& session, std::span<const TokenId> tokens) {
  if (tokens.empty()) co_return std::string();
  std::vector<TokenId> shifted = {tokens.front()};
  const std::span<const TokenId> first(tokens.first(1));
  KVD_CO_TRY(const std::string head, co_await session.Detokenize(first, wire::kFlagSpecial));
  shifted.insert(shifted.end(), tokens.begin(), tokens.end());
  const std::span<const TokenId> all(shifted);
  KVD_CO_TRY(std::string text, co_await session.Detokenize(all, wire::kFlagSpecial));
  if (text.starts_with(head)) co_return text.substr(head.size());
  co_return co_await session.Detokenize(tokens, wire::kFlagSpecial);
}

}  // namespace kvd::http
