// SequencePreparation: rewrites the cells of a sequence that must be rewritten before the next step
// may append to it (Engine::CellsToPrepare), in slices.
//
// Owner: the computing request whose sequence is prepared; the scheduler calls the functions on the
// engine thread. Destroying a SequencePreparation abandons unfinished work, which then has no
// effect. The engine outlives the SequencePreparation.
#pragma once

#include <cstddef>
#include <memory>

#include "base/error.h"
#include "base/ids.h"
#include "engine/engine.h"

namespace kvd {

class SequencePreparation {
 public:
  // Look checks whether the sequence must be prepared, and does not begin the work.
  void Look(Engine& engine, SequenceHandle sequence);
  // Returns the number of cells left to rewrite, or 0 if the sequence needed no preparation at the
  // last Look.
  std::size_t cells_left() const { return work_ ? work_->tokens_left() : cells_; }
  // Rewrites about `cells` cells. If the sequence was changed in the meantime, the work is dropped
  // without an error, and Look must be called again. An error also drops the work. Errors: those of
  // Engine::StartPreparing and CellWork::Advance.
  Status Advance(Engine& engine, SequenceHandle sequence, std::size_t cells);
  void Drop();

 private:
  std::unique_ptr<CellWork> work_;  // the work; null: the work has not begun
  std::size_t cells_ = 0;           // number of cells to rewrite; used before the work has begun
};

}  // namespace kvd
