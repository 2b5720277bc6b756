// kSetLife, and the life of sequences that requests create: their time of expiry, and whether other
// prompts may reuse their cells.
#include "base/clock.h"
#include "daemon/service.h"

namespace kvd {

SequenceLife Service::LifeOf(const VerbRequest& request, std::uint32_t ttl_seconds) {
  return {.expires_unix_ms = ttl_seconds == 0 ? 0 : NowUnixMs() + std::uint64_t{ttl_seconds} * 1000,
          .is_ephemeral = request.has(wire::kFlagEphemeral)};
}

void Service::NoteLife(const SequenceLife& life) {
  if (life.expires_unix_ms != 0 && surroundings_.expiry_set) surroundings_.expiry_set();
}

Result<wire::NoReply> Service::Do(const Call<wire::SetLifeArgs>& call) {
  const SequenceInfo& info = call.sequence;
  SequenceOwner owner = info.owner;
  owner.life = LifeOf(call, call.args.ttl_seconds);
  KVD_CHECK_OK(memory_.sequences().SetOwner(info.handle, owner, 0, 0, call.applied()));
  NoteLife(owner.life);
  return wire::NoReply{};
}

}  // namespace kvd
