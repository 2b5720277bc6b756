#include "daemon/take_back.h"

#include <utility>

namespace kvd {

Result<bool> TakeBack::Advance(Engine& engine, std::size_t tokens_max) {
  if (!rewind_) {
    const auto removed = engine.memory().sequences().RemoveRange(sequence_, {first_, kPosEnd});
    if (removed) return true;
    if (removed.error().code != Code::kNeedsReplay) return std::unexpected(removed.error());
    // Without a tag: the request's own marks stay.
    KVD_TRY(rewind_, engine.memory().states().BeginRewind(sequence_, {first_, kPosEnd}));
    return false;  // how much it is shows now
  }
  Result<bool> replayed = engine.Replay(*rewind_, tokens_max);
  if (!replayed || *replayed) rewind_.reset();  // over by itself
  return replayed;
}

}  // namespace kvd
