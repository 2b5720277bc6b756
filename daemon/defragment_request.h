// DefragmentRequest: kDefrag: packs and settles cells in slices between steps, until no cell can be
// packed or settled.
#pragma once

#include <optional>

#include "daemon/computing_request.h"

namespace kvd {

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
