// ReplayRequest: a removal, fork or copy on a model with recurrent state, if the kept part of the
// sequence ends at a position without a checkpoint. A ReplayRequest computes the tokens from the
// nearest earlier checkpoint to the end of the kept part again, in slices between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/schedule/computing_request.h"
#include "daemon/sessions/wire_reply.h"

namespace kvd {

// The functions that the request calls at its end.
struct AfterReplay {
  // `finish` is called on the engine thread after the cells of the request's range are removed, and
  // returns the answer. If `finish` returns an error, the request ends with that error.
  std::function<Result<WireReply>(const Rewind&)> finish;
  // `undo` is called when the request fails or is cancelled. `undo` may be empty.
  std::function<void()> undo;
};

class ReplayRequest final : public ComputingRequest, public SlicedWork {
 public:
  // Removes `range` of `sequence`. The engine outlives the ReplayRequest. `applied`: the tag that
  // marks the removal's commit.
  ReplayRequest(RequestOrigin origin, Engine& engine, SequenceHandle sequence, PosRange range,
                const RequestTag& applied, AfterReplay after);
  ~ReplayRequest() override;

  SlicedWork* sliced_work() override { return this; }
  // Returns the number of tokens left to compute again. Before the work begins, the number of
  // tokens is not known, and work_left returns 1.
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kReplay; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  Result<bool> Advance(std::size_t tokens);
  void Undo();

  Engine& engine_;
  const PosRange range_;
  const RequestTag applied_;
  AfterReplay after_;
  std::optional<Rewind> rewind_;  // the rewind of the sequence, while the rewind is in progress
};

}  // namespace kvd
