// ReplaySlice: one ubatch of a replay, as a step plan. After a rewind, a replay computes the tokens
// of committed cells again to restore the recurrent state.
//
// Owned by the engine, used on the engine thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/memory/memory.h"

namespace kvd {

class ReplaySlice {
 public:
  // Plans the next tokens of the rewind: at most tokens_max, at consecutive positions. REQUIRES:
  // rewind.done < rewind.tokens.size().
  void Fill(const Rewind& rewind, std::size_t tokens_max);

  const StepPlan& plan() const { return plan_; }
  std::size_t row_count() const { return plan_.sequences[0].new_cells; }
  std::uint32_t state_from() const { return plan_.sequences[0].state_from; }
  std::uint32_t state_to() const { return plan_.sequences[0].state_to; }

  // Records in `rewind` that the slice has been computed. Returns whether this was the last slice
  // of the replay.
  bool Advance(Rewind& rewind) const;

 private:
  StepPlan plan_;
};

}  // namespace kvd
