// TakeBack: the last cells of a sequence are removed, so that they can be computed again: the logits
// behind them were lost with a daemon or a connection.
//
// Owner: the computing request that goes on. Engine thread, between steps. What was begun is given
// up with the object; the engine outlives it.
#pragma once

#include <optional>

#include "engine/engine.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class TakeBack {
 public:
  // `first`: the position of the first cell to go.
  TakeBack(SequenceHandle sequence, Pos first) : sequence_(sequence), first_(first) {}
  ~TakeBack();
  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;

  // A ubatch of it, where a recurrent state has to be computed again; true: done. Errors: those of
  // Memory::RemoveRange and Engine::Replay.
  Result<bool> Advance(Engine& engine);

 private:
  const SequenceHandle sequence_;
  const Pos first_;
  Engine* engine_ = nullptr;  // of rewind_
  std::optional<Rewind> rewind_;
};

}  // namespace kvd
