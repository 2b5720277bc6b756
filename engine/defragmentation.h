// Defragmentation: packs the pool and settles sequences that have gathered many shifts, a slice at a
// time, so that steps can come in between.
//
// Engine thread. One at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/rewrite_work.h"
#include "shm/error.h"

namespace kvd {

struct DefragReport {
  std::uint64_t cells_moved = 0;
  std::uint64_t cells_settled = 0;  // re-rotated, so that their sequence has no shifts any more
  std::uint64_t blocks_freed = 0;
  std::uint64_t bytes_returned = 0;  // to the system
  std::uint32_t sequences_settled = 0;
  std::chrono::nanoseconds packing{0};
  std::chrono::nanoseconds returning{0};  // emptied memory to the system
  std::chrono::nanoseconds settling{0};
};

class Defragmentation {
 public:
  // About as long as a small step takes.
  static constexpr std::uint32_t kSliceCells = 1024;
  // Fewer sparse blocks might not fit into fewer ones.
  static constexpr std::uint32_t kSliceCellsMin = 128;
  // A sequence with more distinct shifts than this is settled: attention turns each query that often.
  static constexpr std::uint32_t kDeltasMax = 4;
  // So is one with a cell that was stored this far from where it is: angles lose no precision.
  static constexpr std::int64_t kShiftMax = 1 << 20;

  // All outlive the object.
  Defragmentation(Memory& memory, CellMover& mover, CellRotator& rotator);

  // Settles or packs about cells_max cells, kSliceCellsMin at least. True: it is done. Errors:
  // kNoSpace, kNumerical; what was done stays done.
  Result<bool> Slice(std::uint32_t cells_max = kSliceCells);
  const DefragReport& report() const { return report_; }

 private:
  // Sequences that one slice looks at for their shifts.
  static constexpr std::size_t kLooksMax = 64;

  // Begins to settle the next sequence that needs it, if one of the next few does.
  Status FindShifted();
  Status SettleSome(std::uint32_t cells_max);

  Memory& memory_;
  CellMover& mover_;
  CellRotator& rotator_;
  DefragReport report_;
  std::vector<SequenceHandle> to_look_at_;
  std::unique_ptr<RewriteWork> settling_;  // null: none is
};

// The part of the used blocks' cells that no sequence refers to, 0 to 1; 0 for a pool that is nearly
// empty.
double PoolWaste(const PoolUsage& usage);

}  // namespace kvd
