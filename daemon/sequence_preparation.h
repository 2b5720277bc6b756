// SequencePreparation: cells of a sequence that must be rewritten before the next step may append to
// it (Engine::CellsToPrepare), as work in slices.
//
// Owner: the computing request whose step it is; the scheduler calls it. Engine thread. What was begun
// is given up with the object: then nothing has changed. The engine outlives it.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/engine.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class SequencePreparation {
 public:
  // Looks whether the sequence needs it now; begins nothing.
  void Look(Engine& engine, SequenceHandle sequence);
  // Cells that are left; 0: the sequence needs nothing, as far as Look has seen.
  std::size_t cells_left() const { return work_ ? work_->tokens_left() : cells_; }
  // Rewrites about that many of them. A sequence that was changed meanwhile is to be looked at again,
  // which is no error. Errors: those of Engine::StartPreparing and of a slice; it is over then.
  Status Advance(Engine& engine, SequenceHandle sequence, std::size_t cells);
  void Drop();

 private:
  std::unique_ptr<CellWork> work_;  // null: not begun
  std::size_t cells_ = 0;           // while it is not begun
};

}  // namespace kvd
