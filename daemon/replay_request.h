// ReplayRequest: a removal, fork or copy on a model with recurrent state whose end no checkpoint
// answers: the tokens behind the nearest checkpoint are computed again, a ubatch between two steps
// of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

// What follows once the sequence has been cut.
struct AfterReplay {
  struct Answer {
    wire::Completion completion{};  // its values; origin and code are filled in
    std::vector<std::byte> output;
  };
  // On the engine thread. An error ends the request with it.
  std::function<Result<Answer>(const Rewind&)> finish;
  // When it ends otherwise: by an error, or cancelled. May be empty.
  std::function<void()> undo;
};

class ReplayRequest final : public ComputingRequest {
 public:
  // Removes `range` of `sequence`. `engine` outlives the request.
  // `applied`: what the removal's commit remembers.
  ReplayRequest(RequestOrigin origin, Engine& engine, SequenceHandle sequence, PosRange range,
                const AppliedRequest& applied, AfterReplay after);
  ~ReplayRequest() override;

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  bool runs_alone() const override { return true; }
  // One ubatch.
  void RunAlone(Engine& engine) override;
  void OnCancel() override;

 private:
  Status Advance(bool* is_done);
  void Undo();

  Engine& engine_;
  const PosRange range_;
  const AppliedRequest applied_;
  AfterReplay after_;
  std::optional<Rewind> rewind_;  // begun and not over
};

}  // namespace kvd
