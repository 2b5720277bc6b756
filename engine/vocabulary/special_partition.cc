#include "engine/vocabulary/special_partition.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/metered_sort.h"

namespace kvd {

// ---- special matcher
// The nodes of a trie are in the order of their depth, so one pass over the nodes finds every
// fallback. The search for a child's fallback starts at the fallback of its parent, which is
// already known.
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

// ---- special partition
// One pass finds, for every end position in the text, the longest token that ends there: a
// candidate. Candidates are then taken in the order of their ranks, and candidates of the same rank
// from left to right, if their bytes are free. Tokens taken earlier are at least as long as the
// candidate, so such a token overlaps the candidate only if the token covers the candidate's first
// or last byte. If only the first byte is taken, the candidate is replaced by the longest shorter
// token with the same end that fits into the free bytes before that end.

namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

bool IsWhiteSpace(char byte) { return kWhiteSpace.find(byte) != kWhiteSpace.npos; }

// A token found in the text, with the white space that it strips.
struct Taken {
  std::uint32_t begin;
  std::uint32_t end;
  TokenId token;
};

class Cutter {
 public:
  Cutter(const TokenTable& tokens, const SpecialMatcher& matcher, std::string_view text,
         WorkControl& work)
      : tokens_(tokens), matcher_(matcher), text_(text), meter_(work), is_taken_(text.size()) {}

  Result<std::vector<TextFragment>> Run() {
    KVD_CHECK_OK(FindCandidates());
    KVD_CHECK_OK(TakeByRank());
    KVD_CHECK_OK(SortMetered(&taken_, &Taken::begin, meter_));
    return Fragments();
  }

 private:
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t end;
  };

  Status FindCandidates() {
    std::vector<Candidate> found;
    SpecialMatcher::State state = SpecialMatcher::kBegin;
    for (std::size_t at = 0; at < text_.size(); ++at) {
      KVD_CHECK_OK(meter_.Spend(1));
      state = matcher_.Next(state, text_[at]);
      const std::uint32_t rank = matcher_.RankAt(state);
      if (rank != SpecialMatcher::kNoRank) {
        found.push_back({rank, static_cast<std::uint32_t>(at + 1)});
        rank_end_ = std::max(rank_end_, rank + 1);
      }
    }
    // Sorts by rank; candidates of one rank keep their order.
    begins_.assign(rank_end_ + 1, 0);
    for (const Candidate& candidate : found) ++begins_[candidate.rank + 1];
    for (std::uint32_t rank = 0; rank < rank_end_; ++rank) begins_[rank + 1] += begins_[rank];
    ends_.resize(found.size());
    std::vector<std::size_t> next(begins_.begin(), begins_.end());
    for (const Candidate& candidate : found) {
      KVD_CHECK_OK(meter_.Spend(1));
      ends_[next[candidate.rank]++] = candidate.end;
    }
    return {};
  }

  Status TakeByRank() {
    for (std::uint32_t rank = 0; rank < rank_end_ || !late_.empty(); ++rank) {
      KVD_CHECK_OK(meter_.Spend(1));
      const bool has_late = !late_.empty() && late_.begin()->first == rank;
      std::vector<std::uint32_t> ends;
      if (has_late) ends = std::move(late_.extract(late_.begin()).mapped());
      if (rank < rank_end_) {
        const auto own = std::span(ends_).subspan(begins_[rank], begins_[rank + 1] - begins_[rank]);
        if (!has_late) {
          for (const std::uint32_t end : own) KVD_CHECK_OK(Take(rank, end));
          continue;
        }
        ends.insert(ends.end(), own.begin(), own.end());
      }
      KVD_CHECK_OK(SortMetered(&ends, std::identity(), meter_));
      for (const std::uint32_t end : ends) KVD_CHECK_OK(Take(rank, end));
    }
    return {};
  }

  Status Take(std::uint32_t rank, std::uint32_t end) {
    const auto bytes = static_cast<std::uint32_t>(matcher_.text_bytes(rank));
    std::uint32_t begin = end - bytes;
    KVD_CHECK_OK(meter_.Spend(1));
    if (is_taken_[end - 1]) return {};
    if (is_taken_[begin]) return GiveWay(rank, end);
    const TokenId token = matcher_.token(rank);
    const std::uint8_t attributes = tokens_.attributes(token);
    if ((attributes & token_attribute::kStripLeft) != 0) {
      while (begin > 0 && !is_taken_[begin - 1] && IsWhiteSpace(text_[begin - 1])) --begin;
    }
    if ((attributes & token_attribute::kStripRight) != 0) {
      while (end < text_.size() && !is_taken_[end] && IsWhiteSpace(text_[end])) ++end;
    }
    for (std::uint32_t at = begin; at < end; ++at) is_taken_[at] = true;
    taken_.push_back({begin, end, token});
    return meter_.Spend(end - begin);
  }

  Status GiveWay(std::uint32_t rank, std::uint32_t end) {
    std::uint32_t free_begin = end - 1;
    while (!is_taken_[free_begin - 1]) --free_begin;
    KVD_CHECK_OK(meter_.Spend(end - free_begin));
    do {
      rank = matcher_.shorter(rank);
    } while (rank != SpecialMatcher::kNoRank && matcher_.text_bytes(rank) > end - free_begin);
    if (rank != SpecialMatcher::kNoRank) late_[rank].push_back(end);
    return {};
  }

  Result<std::vector<TextFragment>> Fragments() {
    std::vector<TextFragment> fragments;
    std::size_t at = 0;
    for (const Taken& one : taken_) {
      KVD_CHECK_OK(meter_.Spend(1));
      if (at < one.begin) fragments.push_back({kNoToken, text_.substr(at, one.begin - at)});
      fragments.push_back({one.token, {}});
      at = one.end;
    }
    if (at < text_.size()) fragments.push_back({kNoToken, text_.substr(at)});
    return fragments;
  }

  const TokenTable& tokens_;
  const SpecialMatcher& matcher_;
  const std::string_view text_;
  WorkMeter meter_;
  std::vector<bool> is_taken_;  // by byte of the text
  std::uint32_t rank_end_ = 0;  // highest rank found by the pass, plus 1
  // Ends of the candidates of rank r: ends_[begins_[r], begins_[r + 1]).
  std::vector<std::size_t> begins_;
  std::vector<std::uint32_t> ends_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> late_;  // ends of the replacements, by rank
  std::vector<Taken> taken_;
};

}  // namespace

Result<std::unique_ptr<SpecialPartition>> SpecialPartition::Create(const TokenTable& tokens) {
  constexpr std::uint8_t special = token_attribute::kHidden | token_attribute::kUserDefined;
  std::vector<TokenId> all;
  std::vector<TokenId> user_defined;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    if ((attributes & special) == 0) continue;
    all.push_back(token);
    if ((attributes & token_attribute::kHidden) == 0) user_defined.push_back(token);
  }
  KVD_TRY(SpecialMatcher find_all, SpecialMatcher::Create(tokens, std::move(all)));
  KVD_TRY(SpecialMatcher find_user_defined,
          SpecialMatcher::Create(tokens, std::move(user_defined)));
  return std::unique_ptr<SpecialPartition>(
      new SpecialPartition(tokens, std::move(find_all), std::move(find_user_defined)));
}

Result<std::vector<TextFragment>> SpecialPartition::Cut(std::string_view text, bool parse_special,
                                                        WorkControl& work) const {
  const SpecialMatcher& matcher = parse_special ? all_ : user_defined_;
  if (text.empty()) return std::vector<TextFragment>{};
  if (matcher.empty()) return std::vector<TextFragment>{{kNoToken, text}};
  return Cutter(tokens_, matcher, text, work).Run();
}

}  // namespace kvd
