// TakeBack: removes the last cells of a sequence, because the request that appended them has
// failed, or because these cells are computed again after their logits were lost with a daemon or a
// connection.
//
// Owner: the request that appends. The engine thread uses a TakeBack between steps. Destroying a
// TakeBack abandons unfinished work. The engine outlives the TakeBack.
#pragma once

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/ids.h"
#include "engine/engine.h"

namespace kvd {

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

}  // namespace kvd
