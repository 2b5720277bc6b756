// TakeBack: the last cells of a sequence are removed, so that they can be computed again: the logits
// behind them were lost with a daemon or a connection.
//
// Owner: the computing request that goes on. Engine thread, between steps. What was begun is given
// up with the object; the engine outlives it.
#pragma once

#include <algorithm>
#include <optional>

#include "engine/engine.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class TakeBack {
 public:
  // `first`: the position of the first cell to go.
  TakeBack(SequenceHandle sequence, Pos first) : sequence_(sequence), first_(first) {}
  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;

  // About tokens_max tokens of it, where a recurrent state has to be computed again; true: done.
  // Errors: those of Memory::RemoveRange and Engine::Replay.
  Result<bool> Advance(Engine& engine, std::size_t tokens_max);
  // To be computed again, 1 before that is known.
  std::size_t tokens_left() const {
    return rewind_ ? std::max<std::size_t>(rewind_->tokens.size() - rewind_->done, 1) : 1;
  }

 private:
  const SequenceHandle sequence_;
  const Pos first_;
  std::optional<Rewind> rewind_;
};

}  // namespace kvd
