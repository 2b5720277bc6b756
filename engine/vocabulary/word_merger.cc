// Every pair of neighbours that has a merge rule is queued in a heap, lowest rank first and
// leftmost first among equal ranks. A queued pair whose symbols have changed is skipped. A word of
// n symbols takes at most n merges and 3n queued pairs, so the time is O(n log n) for any word.
#include "engine/vocabulary/word_merger.h"

#include <algorithm>

namespace kvd {

// Returns true if `a` comes after `b`, so that the top of the heap is the candidate with the lowest
// rank, and the leftmost of equal ranks.
bool WordMerger::IsLater(const Candidate& a, const Candidate& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
}

Status WordMerger::Merge() {
  candidates_.clear();
  for (std::int32_t right = 1; right < chain_.symbol_count(); ++right) {
    KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
    Consider(right - 1, right);
  }
  while (!candidates_.empty()) {
    KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
    MergeNext();
  }
  return {};
}

void WordMerger::MergeNext() {
  std::ranges::pop_heap(candidates_, IsLater);
  const Candidate best = candidates_.back();
  candidates_.pop_back();
  const ChainSymbol& left = chain_[best.left];
  const ChainSymbol& right = chain_[best.right];
  const bool stands = left.bytes > 0 && right.bytes > 0 && left.id == best.left_symbol &&
                      right.id == best.right_symbol;
  if (!stands) return;
  chain_.MergeIntoLeft(best.left, best.right, best.merged);
  Consider(left.previous, best.left);
  Consider(best.left, left.next);
}

void WordMerger::Consider(std::int32_t left, std::int32_t right) {
  if (left < 0 || right < 0) return;
  const std::int32_t left_symbol = chain_[left].id;
  const std::int32_t right_symbol = chain_[right].id;
  const MergeRule rule = rules_.Find(left_symbol, right_symbol);
  if (rule.rank < 0) return;
  candidates_.push_back({rule.rank, left, right, left_symbol, right_symbol, rule.merged});
  std::ranges::push_heap(candidates_, IsLater);
}

}  // namespace kvd
