// ReplaySlice: one ubatch of a rewind's replay as a step plan: committed cells that are computed
// again for the sake of the recurrent state.
//
// Owned by the engine, its thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/memory/memory.h"

namespace kvd {

class ReplaySlice {
 public:
  // The next tokens of the rewind: at most tokens_max, of positions that follow each other.
  // REQUIRES: rewind.done < rewind.tokens.size().
  void Fill(const Rewind& rewind, std::size_t tokens_max);

  const StepPlan& plan() const { return plan_; }
  std::size_t row_count() const { return plan_.sequences[0].new_cells; }
  std::uint32_t state_from() const { return plan_.sequences[0].state_from; }
  std::uint32_t state_to() const { return plan_.sequences[0].state_to; }

  // The slice has been computed. Returns whether it was the last one.
  bool Advance(Rewind& rewind) const;

 private:
  StepPlan plan_;
};

}  // namespace kvd
