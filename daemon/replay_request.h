// ReplayRequest: a removal, fork or copy on a model with recurrent state whose end no checkpoint
// answers: the tokens behind the nearest checkpoint are computed again, some between two steps
// of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/reply.h"

namespace kvd {

// What follows once the sequence has been cut.
struct AfterReplay {
  // On the engine thread: the answer. An error ends the request with it.
  std::function<Result<Reply>(const Rewind&)> finish;
  // When it ends otherwise: by an error, or cancelled. May be empty.
  std::function<void()> undo;
};

class ReplayRequest final : public ComputingRequest {
 public:
  // Removes `range` of `sequence`. `engine` outlives the request.
  // `applied`: what the removal's commit remembers.
  ReplayRequest(RequestOrigin origin, Engine& engine, SequenceHandle sequence, PosRange range,
                const RequestTag& applied, AfterReplay after);
  ~ReplayRequest() override;

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  // 1 until it is begun: only then it shows how much it is.
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
  std::optional<Rewind> rewind_;  // begun and not over
};

}  // namespace kvd
