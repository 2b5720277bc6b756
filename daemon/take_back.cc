#include "daemon/take_back.h"

#include <utility>

namespace kvd {

Result<bool> TakeBack::Advance(Engine& engine, std::size_t tokens_max) {
  if (!rewind_) {
    const auto removed = engine.memory().sequences().RemoveRange(sequence_, {first_, kPosEnd});
    if (removed) return true;
    if (removed.error().code != Code::kNeedsReplay) return std::unexpected(removed.error());
    // TakeBack's rewind has no tag, so that the tags of the request's own commits stay.
    KVD_TRY(rewind_, engine.memory().states().BeginRewind(sequence_, {first_, kPosEnd}));
    return false;  // now the number of tokens to replay is known
  }
  Result<bool> replayed = engine.Replay(*rewind_, tokens_max);
  // A Replay that fails or completes has ended the rewind.
  if (!replayed || *replayed) rewind_.reset();
  return replayed;
}

}  // namespace kvd
