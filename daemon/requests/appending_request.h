// Requests that append tokens to a sequence, and TakeBack, which removes the tokens again.
#pragma once

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/schedule/computing_request.h"
#include "engine/engine.h"

namespace kvd {

// TakeBack: removes the last cells of a sequence, because the request that appended them has
// failed, or because these cells are computed again after their logits were lost with a daemon or a
// connection.
//
// Owner: the request that appends. The engine thread uses a TakeBack between steps. Destroying a
// TakeBack abandons unfinished work. The engine outlives the TakeBack.
class TakeBack {
 public:
  // `first`: the position of the first cell to remove.
  TakeBack(SequenceHandle sequence, Pos first) : sequence_(sequence), first_(first) {}
  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;

  // Does a part of the work, and returns true when the cells are removed. If a recurrent state must
  // be computed again, a call of Advance computes about tokens_max tokens. Errors: those of
  // Memory::RemoveRange and Engine::Replay.
  Result<bool> Advance(Engine& engine, std::size_t tokens_max);
  // Returns the number of tokens left to compute again, or 1 before that number is known.
  std::size_t tokens_left() const {
    return rewind_ ? std::max<std::size_t>(rewind_->tokens.size() - rewind_->done, 1) : 1;
  }

 private:
  const SequenceHandle sequence_;
  const Pos first_;
  std::optional<Rewind> rewind_;
};

// AppendingRequest: a computing request that appends tokens (kDecode, kGenerate). If the request
// fails before all of its given tokens are appended, the appended tokens are removed again before
// the request is answered, so that the sequence is as it was before the request. An
// AppendingRequest also removes cells that are computed again after a restart or a lost connection.
//
// Owner: the scheduler, as for every computing request. Only the engine thread uses an
// AppendingRequest.
class AppendingRequest : public ComputingRequest, public StepMember, public SlicedWork {
 public:
  StepMember* step_member() final { return this; }
  SlicedWork* sliced_work() final { return this; }
  std::size_t work_left() const final {
    return take_back_ && !finishing() ? take_back_->tokens_left() : 0;
  }
  WorkKind work_kind() const final { return WorkKind::kReplay; }
  void DoWork(Engine& engine, std::size_t tokens) final;
  void FailWith(const Error& error) final;
  // A cancelled request leaves its appended tokens in the sequence.
  void OnCancel() override;

 protected:
  AppendingRequest(RequestOrigin origin, SequenceHandle sequence)
      : ComputingRequest(std::move(origin), sequence) {}

  // Removes the cells of the sequence from position `first` to its end, then calls OnTakenBack. The
  // request computes nothing before the call of OnTakenBack.
  void TakeBackFrom(Pos first) { take_back_.emplace(sequence(), first); }
  bool takes_back() const { return take_back_.has_value(); }
  // Returns whether the request has failed and only waits until its tokens are removed.
  bool has_failed() const { return failure_.has_value(); }

 private:
  // Returns the position of the first token that the request has appended, or nullopt if the
  // request has appended none of its given tokens, or all of them.
  virtual std::optional<Pos> FirstAppended() const = 0;
  virtual void OnTakenBack() {}

  std::optional<TakeBack> take_back_;
  // The error that is the request's answer when its tokens are removed.
  std::optional<Error> failure_;
};

}  // namespace kvd
