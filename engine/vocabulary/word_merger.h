// WordMerger merges the symbols of one word after another by a vocabulary's merges. It is the
// scratch memory of one call of a tokenizer, whose buffers are reused from word to word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/work_control.h"
#include "engine/vocabulary/merge_chain.h"
#include "engine/vocabulary/merge_rules.h"

namespace kvd {

class WordMerger {
 public:
  // `rules` and `meter` must outlive the object.
  WordMerger(const MergeRules& rules, WorkMeter& meter) : rules_(rules), meter_(meter) {}

  // The symbols of the word: the caller fills the chain, calls Merge, and reads what is left of it.
  MergeChain& chain() { return chain_; }

  // Errors: kCancelled.
  Status Merge();

 private:
  struct Candidate {
    std::int32_t rank;
    std::int32_t left;
    std::int32_t right;
    std::int32_t left_symbol;
    std::int32_t right_symbol;
    std::int32_t merged;
  };
  static constexpr std::size_t kCandidateUnits = 16;

  static bool IsLater(const Candidate& a, const Candidate& b);
  void MergeNext();
  void Consider(std::int32_t left, std::int32_t right);

  const MergeRules& rules_;
  WorkMeter& meter_;
  MergeChain chain_;
  std::vector<Candidate> candidates_;
};

}  // namespace kvd
