// Prefix sharing: what becomes of sequences that nobody uses, and how a prompt may begin.
#include <algorithm>

#include "daemon/prompt_cache.h"
#include "daemon/service.h"
#include "engine/model_config.h"

namespace kvd {

Result<bool> Service::LetGo(SequenceHandle handle, const RequestTag& applied) {
  if (prefixes_.retained_max > 0) {
    const Result<bool> stays = memory_.prefixes().Retain(handle, applied);
    if (stays.value_or(false) && surroundings_.prompt_cache != nullptr) {
      surroundings_.prompt_cache->Offer(handle);
    }
    return stays;
  }
  KVD_CHECK_OK(memory_.sequences().Drop(handle, applied));
  return false;
}

Result<Reply> Service::Retain(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  KVD_CHECK_OK(
      CheckChange(AccessOf(request.caller, info), request.has(wire::kFlagForce), "sequence", info));
  KVD_CHECK_OK(scheduler_.CheckIdle(info.handle));
  Reply reply;
  reply.sequence = info.handle;
  KVD_TRY(const bool stays, LetGo(info.handle, request.applied()));
  if (prefixes_.retained_max > 0) (void)memory_.prefixes().LimitRetained(prefixes_.retained_max);
  reply.value0 = stays ? 1 : 0;
  return reply;
}

Result<Reply> Service::Pin(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  KVD_CHECK_OK(
      CheckChange(AccessOf(request.caller, info), request.has(wire::kFlagForce), "sequence", info));
  const bool is_pinned = request.submission.argument != 0;
  KVD_CHECK_OK(memory_.sequences().SetOwner(
      info.handle, info.owner, is_pinned ? layout::kSequencePinned : 0u,
      is_pinned ? 0u : layout::kSequencePinned, request.applied()));
  if (!is_pinned && surroundings_.prompt_cache != nullptr) {
    surroundings_.prompt_cache->Offer(info.handle);
  }
  Reply reply;
  reply.sequence = info.handle;
  return reply;
}

// In portions, so that the memory's mutex is not held for all of them. Sent again after only some of
// several portions, the request drops what is left.
Result<Reply> Service::DropRetained(const Request& request) {
  constexpr std::size_t kPortion = 256;
  Reply reply;
  for (bool is_complete = false; !is_complete;) {
    std::vector<SequenceHandle> meant;
    for (const SequenceInfo& info : memory_.sequences().RetainedOf(request.caller.uid)) {
      if (IsEvictable(info.flags) || request.has(wire::kFlagForce)) meant.push_back(info.handle);
    }
    const bool is_one_portion = meant.size() <= kPortion && reply.value0 == 0;
    is_complete = true;
    for (std::size_t first = 0; first < std::max<std::size_t>(1, meant.size()); first += kPortion) {
      const auto portion =
          std::span(meant).subspan(first, std::min(kPortion, meant.size() - first));
      const Status dropped =
          memory_.sequences().DropAll(portion, is_one_portion ? request.applied() : RequestTag{});
      // One was evicted meanwhile: the rest is listed again.
      is_complete = dropped.has_value() || dropped.error().code != Code::kNotFound;
      if (!is_complete) break;
      KVD_CHECK_OK(dropped);
      reply.value0 += std::ssize(portion);
    }
    if (is_complete && !is_one_portion) {
      KVD_CHECK_OK(memory_.sessions().Remember(request.applied(), Sessions::Stage::kEnded,
                                               static_cast<std::uint32_t>(reply.value0)));
    }
  }
  return reply;
}

OpeningState Service::OpeningFor(const Request& request, const SequenceInfo& info) const {
  OpeningState opening;
  opening.uid = info.owner.uid;
  opening.salt = info.owner.namespace_salt;
  opening.may_take = false;
  const bool is_on = prefixes_.is_shared && request.session->identity().shares_prefixes &&
                     !request.has(wire::kFlagNoPrefix);
  const bool wants_all =
      static_cast<wire::Verb>(request.submission.verb) == wire::Verb::kDecode &&
      request.submission.argument == static_cast<std::int64_t>(wire::LogitsWanted::kAll);
  if (!is_on) {
    opening.reuse.limit = PrefixLimit::kOff;
  } else if (info.cell_count != 0) {
    opening.reuse.limit = PrefixLimit::kNotEmpty;
  } else if (engine_.config().has_cross_attention()) {
    opening.reuse.limit = PrefixLimit::kUnsupported;
  } else if (wants_all) {
    opening.reuse.limit = PrefixLimit::kAllLogits;
  } else {
    opening.may_take = true;
  }
  return opening;
}

}  // namespace kvd
