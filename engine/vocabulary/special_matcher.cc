// The nodes of a trie are in the order of their depth, so one pass over the nodes finds every
// fallback. The search for a child's fallback starts at the fallback of its parent, which is
// already known.
#include "engine/vocabulary/special_matcher.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace kvd {

Result<SpecialMatcher> SpecialMatcher::Create(const TokenTable& tokens, std::vector<TokenId> ids) {
  KVD_TRY(TokenTrie trie, TokenTrie::Create(tokens, ids));
  SpecialMatcher made(std::move(trie));
  made.RankTokens(tokens, std::move(ids));
  made.LinkNodes();
  return made;
}

void SpecialMatcher::RankTokens(const TokenTable& tokens, std::vector<TokenId> ids) {
  std::ranges::sort(ids, [&tokens](TokenId a, TokenId b) {
    const std::size_t a_bytes = tokens.text(a).size();
    const std::size_t b_bytes = tokens.text(b).size();
    return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
  });
  tokens_ = std::move(ids);
  for (const TokenId token : tokens_) {
    bytes_.push_back(static_cast<std::uint32_t>(tokens.text(token).size()));
  }
}

void SpecialMatcher::LinkNodes() {
  std::unordered_map<TokenId, std::uint32_t> rank_of;
  for (std::uint32_t rank = 0; rank < tokens_.size(); ++rank) rank_of[tokens_[rank]] = rank;
  fallbacks_.assign(trie_.node_count(), kBegin);
  ranks_.assign(trie_.node_count(), kNoRank);
  shorter_.assign(tokens_.size(), kNoRank);
  for (State node = 0; node < trie_.node_count(); ++node) {
    const std::uint32_t suffix_rank = node == kBegin ? kNoRank : ranks_[fallbacks_[node]];
    const TokenId token = trie_.TokenAt(node);
    ranks_[node] = suffix_rank;
    if (token != kNoToken) {
      ranks_[node] = rank_of.at(token);
      shorter_[ranks_[node]] = suffix_rank;
    }
    for (State child = trie_.child_begin(node); child < trie_.child_end(node); ++child) {
      fallbacks_[child] = node == kBegin ? kBegin : Next(fallbacks_[node], trie_.byte(child));
    }
  }
}

}  // namespace kvd
