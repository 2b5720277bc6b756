#include "daemon/sequence_preparation.h"

#include <algorithm>

namespace kvd {

void SequencePreparation::Look(Engine& engine, SequenceHandle sequence) {
  if (!work_) cells_ = engine.CellsToPrepare(sequence);
}

Status SequencePreparation::Advance(Engine& engine, SequenceHandle sequence, std::size_t cells) {
  cells_ = 0;
  if (!work_) {
    auto work = engine.StartPreparing(sequence);
    if (!work) return std::unexpected(std::move(work).error());
    work_ = std::move(*work);
  }
  const Result<bool> is_done = work_->Advance(cells);
  if (is_done && !*is_done) return {};
  work_.reset();
  if (is_done || is_done.error().code == Code::kConflict) return {};
  return std::unexpected(is_done.error());
}

void SequencePreparation::Drop() {
  work_.reset();
  cells_ = 0;
}

}  // namespace kvd
