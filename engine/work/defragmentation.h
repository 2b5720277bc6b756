// Defragmentation: packs the pool and settles sequences with many shifts, one slice at a time, so
// that steps can run between slices.
//
// Used on the engine thread. At most one defragmentation runs at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/memory/memory.h"
#include "engine/work/engine_work.h"

namespace kvd {

struct DefragReport {
  std::uint64_t cells_moved = 0;
  // Cells with newly rotated keys, whose sequences have no shifts afterwards.
  std::uint64_t cells_settled = 0;
  std::uint64_t blocks_freed = 0;
  std::uint64_t bytes_returned = 0;  // memory returned to the system
  std::uint32_t sequences_settled = 0;
  std::chrono::nanoseconds packing{0};
  std::chrono::nanoseconds returning{0};  // time spent returning memory to the system
  std::chrono::nanoseconds settling{0};
};

class Defragmentation {
 public:
  // A slice of kSliceCells cells takes about as long as a small step.
  static constexpr std::uint32_t kSliceCells = 1024;
  // With a slice below kSliceCellsMin cells, the cells of the few chosen sparse blocks might not
  // fit into fewer blocks.
  static constexpr std::uint32_t kSliceCellsMin = 128;
  // A sequence with more than kDeltasMax distinct shifts is settled, because attention rotates each
  // query once per distinct shift.
  static constexpr std::uint32_t kDeltasMax = 4;
  // A sequence with a cell whose stored and effective positions differ by more than kShiftMax is
  // settled, so that angles lose no precision.
  static constexpr std::int64_t kShiftMax = 1 << 20;

  // The arguments outlive the Defragmentation.
  Defragmentation(Memory& memory, CellMover& mover, CellRotator& rotator);

  // Settles or packs about cells_max cells, at least kSliceCellsMin. Returns true when the
  // defragmentation is complete. Errors: kNoSpace, kNumerical; the work of earlier slices is kept.
  Result<bool> Slice(std::uint32_t cells_max = kSliceCells);
  const DefragReport& report() const { return report_; }

 private:
  // The most sequences whose shifts one slice examines.
  static constexpr std::size_t kLooksMax = 64;

  // Examines the next sequences, at most kLooksMax, and begins to settle the first sequence that
  // has to be settled.
  Status FindShifted();
  Status SettleSome(std::uint32_t cells_max);

  Memory& memory_;
  CellMover& mover_;
  CellRotator& rotator_;
  DefragReport report_;
  std::vector<SequenceHandle> to_look_at_;
  std::unique_ptr<RewriteWork> settling_;  // null: no sequence is being settled
};

// PoolWaste: the fraction of the cells in used blocks that no sequence refers to, 0 to 1. The waste
// of a pool that is nearly empty counts as 0.
double PoolWaste(const PoolUsage& usage);

}  // namespace kvd
