// A sequence that cannot be dropped at the moment stays first in the order of expiry; the next look
// tries again after kRetry.
#include "daemon/sessions/expiries.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "daemon/process/log.h"

namespace kvd {
namespace {

constexpr std::chrono::milliseconds kRetry{100};

Status DropExpired(Memory& memory, const SequenceInfo& expired) {
  if ((expired.flags & layout::kSequencePublished) == 0) {
    return memory.sequences().Drop(expired.handle);
  }
  for (const SnapshotInfo& snapshot : memory.snapshots().List()) {
    if (snapshot.sequence != expired.handle) continue;
    return memory.snapshots().Unpublish(snapshot.name, snapshot.owner);
  }
  return Fail(Code::kNotFound, "the snapshot was unpublished");
}

}  // namespace

Expiries::Expiries(IoLoop& loop, Memory& memory, std::function<void(SequenceHandle)> cancel)
    : loop_(loop), memory_(memory), cancel_(std::move(cancel)) {
  Arm();
}

void Expiries::Arm() {
  const std::optional<std::uint64_t> next = memory_.sequences().NextExpiry();
  if (!next) return timer_.reset();
  const std::uint64_t now = NowUnixMs();
  const std::uint64_t left = *next > now ? *next - now : 0;
  const std::uint64_t wait = std::min(left, static_cast<std::uint64_t>(Expiries::kLookMax.count()));
  timer_ = loop_.After(std::chrono::milliseconds(wait), [this] { OnTimer(); });
}

bool Expiries::DropSome(std::uint64_t now_unix_ms) {
  const std::vector<SequenceInfo> expired = memory_.sequences().Expired(now_unix_ms);
  bool has_dropped = false;
  for (const SequenceInfo& sequence : expired) {
    cancel_(sequence.handle);
    // kNotFound: the sequence was dropped or evicted in the meantime.
    const Status dropped = DropExpired(memory_, sequence);
    if (!dropped && dropped.error().code != Code::kNotFound) continue;
    has_dropped = true;
    ++dropped_;
    Log(LogLevel::kDebug, "expired",
        Concat("sequence=", static_cast<std::uint64_t>(sequence.handle)));
  }
  return has_dropped && expired.size() == Sequences::kListedAtOnce;
}

void Expiries::OnTimer() {
  const std::uint64_t now = NowUnixMs();
  if (DropSome(now)) {
    timer_ = loop_.After(std::chrono::milliseconds(0), [this] { OnTimer(); });
    return;
  }
  const std::optional<std::uint64_t> next = memory_.sequences().NextExpiry();
  if (next && *next <= now) {
    timer_ = loop_.After(kRetry, [this] { OnTimer(); });
    return;
  }
  Arm();
}

}  // namespace kvd
