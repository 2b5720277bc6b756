#include "daemon/take_back.h"

#include <utility>

namespace kvd {

TakeBack::~TakeBack() {
  if (rewind_) engine_->memory().states().AbandonRewind(*rewind_);
}

Result<bool> TakeBack::Advance(Engine& engine, std::size_t tokens_max) {
  if (!rewind_) {
    const auto removed = engine.memory().sequences().RemoveRange(sequence_, {first_, kPosEnd});
    if (removed) return true;
    if (removed.error().code != Code::kNeedsReplay) return std::unexpected(removed.error());
    Rewind rewind;  // nobody's removal: the request's own marks stay
    KVD_CHECK_OK(engine.memory().states().BeginRewind(sequence_, {first_, kPosEnd}, &rewind));
    rewind_ = std::move(rewind);
    engine_ = &engine;
    return false;  // how much it is shows now
  }
  Result<bool> replayed = engine.Replay(*rewind_, tokens_max);
  if (!replayed || *replayed) rewind_.reset();  // over by itself
  return replayed;
}

}  // namespace kvd
