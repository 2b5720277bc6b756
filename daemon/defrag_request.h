// DefragRequest: kDefrag: a slice between two steps, until nothing is left to pack or settle.
#pragma once

#include <optional>

#include "daemon/computing_request.h"

namespace kvd {

class DefragRequest final : public ComputingRequest {
 public:
  // No sequence is its own: a second one is busy.
  explicit DefragRequest(RequestOrigin origin)
      : ComputingRequest(std::move(origin), SequenceHandle::kNone) {}

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  // A slice: how much is left is known at the end alone.
  std::size_t work_left() const override { return finishing() ? 0 : Defragmentation::kSliceCells; }
  WorkKind work_kind() const override { return WorkKind::kPack; }
  void DoWork(Engine& engine, std::size_t cells) override;
  void OnCancel() override;

 private:
  std::optional<Defragmentation> work_;
};

}  // namespace kvd
