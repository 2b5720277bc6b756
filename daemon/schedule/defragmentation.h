// Defragmentation of the pool between steps: on the scheduler's own initiative, and for kDefrag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/schedule/computing_request.h"
#include "engine/engine.h"

namespace kvd {

// AutomaticDefragmentation: begins a defragmentation when too much of the pool is waste, and does
// its slices.
//
// Owner: the scheduler, which counts the slices as work between steps. Only the engine thread uses
// an AutomaticDefragmentation. The engine outlives it.
class AutomaticDefragmentation {
 public:
  // `threshold`: the part of the used blocks that may be waste before a defragmentation begins; 0:
  // none begins.
  AutomaticDefragmentation(Engine& engine, double threshold)
      : engine_(engine), threshold_(threshold) {}

  // Begins a defragmentation if none runs and the waste exceeds the threshold. The scheduler calls
  // Look in each round; the waste is only checked in some of them.
  void Look();
  bool is_running() const { return running_.has_value(); }
  // Does one slice. Returns the number of cells of the slice, which may differ from `cells`.
  // REQUIRES: is_running().
  std::size_t Advance(std::size_t cells);

 private:
  Engine& engine_;
  const double threshold_;
  std::optional<Defragmentation> running_;
  std::uint64_t rounds_ = 0;
  // The number of the round in which the waste is checked next.
  std::uint64_t next_check_ = 0;
};

// DefragmentRequest: kDefrag: packs and settles cells in slices between steps, until no cell can be
// packed or settled.
class DefragmentRequest final : public ComputingRequest, public SlicedWork {
 public:
  // A DefragmentRequest's sequence is kNone and excludes_others() is true, so a second kDefrag is
  // refused with kBusy.
  explicit DefragmentRequest(RequestOrigin origin)
      : ComputingRequest(std::move(origin), SequenceHandle::kNone) {}

  SlicedWork* sliced_work() override { return this; }
  // The estimate of the work that is left is one slice until the end, because the number of cells
  // that must move is known only when the last of these cells has moved.
  std::size_t work_left() const override { return finishing() ? 0 : Defragmentation::kSliceCells; }
  WorkKind work_kind() const override { return WorkKind::kPack; }
  void DoWork(Engine& engine, std::size_t cells) override;
  void OnCancel() override;

 private:
  std::optional<Defragmentation> work_;
};

}  // namespace kvd
