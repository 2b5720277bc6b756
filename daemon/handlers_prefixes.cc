// Prefix sharing: the verbs that release, pin and drop retained sequences, and the rule whether a
// prompt may take cells of other sequences.
#include <algorithm>

#include "daemon/prompt_cache.h"
#include "daemon/service.h"
#include "engine/model/model_config.h"

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

Result<wire::RetainReply> Service::Do(const Call<wire::RetainArgs>& call) {
  KVD_TRY(const bool stays, LetGo(call.args.sequence, call.applied()));
  if (prefixes_.retained_max > 0) (void)memory_.prefixes().LimitRetained(prefixes_.retained_max);
  return wire::RetainReply{.sequence = call.args.sequence, .stays = stays};
}

Result<wire::PinReply> Service::Do(const Call<wire::PinArgs>& call) {
  const SequenceInfo& info = call.sequence;
  const bool is_pinned = call.args.is_pinned;
  KVD_CHECK_OK(memory_.sequences().SetOwner(
      info.handle, info.owner, is_pinned ? layout::kSequencePinned : 0u,
      is_pinned ? 0u : layout::kSequencePinned, call.applied()));
  if (!is_pinned && surroundings_.prompt_cache != nullptr) {
    surroundings_.prompt_cache->Offer(info.handle);
  }
  return wire::PinReply{.sequence = info.handle};
}

// Drops the retained sequences in portions, so that the memory's mutex is not held for all of them
// at once. If the request is interrupted and retried, the retry drops the remaining sequences.
Result<wire::DropRetainedReply> Service::Do(const Call<wire::DropRetainedArgs>& call) {
  constexpr std::size_t kPortion = 256;
  wire::DropRetainedReply reply;
  for (bool is_complete = false; !is_complete;) {
    std::vector<SequenceHandle> meant;
    for (const SequenceInfo& info : memory_.sequences().RetainedOf(call.caller.owner)) {
      if (IsEvictable(info.flags) || call.has(wire::kFlagForce)) meant.push_back(info.handle);
    }
    const bool is_one_portion = meant.size() <= kPortion && reply.count == 0;
    is_complete = true;
    for (std::size_t first = 0; first < std::max<std::size_t>(1, meant.size()); first += kPortion) {
      const auto portion =
          std::span(meant).subspan(first, std::min(kPortion, meant.size() - first));
      const Status dropped =
          memory_.sequences().DropAll(portion, is_one_portion ? call.applied() : RequestTag{});
      // The error kNotFound means that a sequence was evicted in the meantime; the remaining
      // sequences are then listed again.
      is_complete = dropped.has_value() || dropped.error().code != Code::kNotFound;
      if (!is_complete) break;
      KVD_CHECK_OK(dropped);
      reply.count += portion.size();
    }
    if (is_complete && !is_one_portion) {
      KVD_CHECK_OK(memory_.sessions().Remember(call.applied(), Sessions::Stage::kEnded,
                                               static_cast<std::uint32_t>(reply.count)));
    }
  }
  return reply;
}

PromptOpening Service::OpeningFor(const VerbRequest& request, const SequenceInfo& info,
                                  bool wants_all_logits) const {
  PromptOpening opening;
  opening.owner = info.owner.id;
  opening.is_ephemeral = info.owner.life.is_ephemeral;
  opening.salt = info.owner.namespace_salt;
  opening.may_take = false;
  const bool is_on = prefixes_.is_shared && request.session->identity().shares_prefixes &&
                     !request.has(wire::kFlagNoPrefix);
  if (!is_on) {
    opening.reuse.limit = PrefixLimit::kOff;
  } else if (info.cell_count != 0) {
    opening.reuse.limit = PrefixLimit::kNotEmpty;
  } else if (engine_.config().has_cross_attention()) {
    opening.reuse.limit = PrefixLimit::kUnsupported;
  } else if (wants_all_logits) {
    opening.reuse.limit = PrefixLimit::kAllLogits;
  } else {
    opening.may_take = true;
  }
  return opening;
}

}  // namespace kvd
