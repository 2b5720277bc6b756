// Saved states: what a caller may save, and where its sequences come back to. The work is done by
// SavedStates on workers.
#include <string>

#include "daemon/saved_states.h"
#include "daemon/service.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

SaveProfile ProfileOf(std::int64_t bits) {
  SaveProfile profile{.with_logits = (bits & wire::kSaveNoLogits) == 0,
                      .tokens_only = (bits & wire::kSaveTokensOnly) != 0,
                      .packed = (bits & wire::kSaveUnpacked) == 0};
  if ((bits & wire::kSaveQ8Rows) != 0) profile.k_type = profile.v_type = kernels::DataType::kQ8_0;
  return profile;
}

}  // namespace

Result<SavedStates*> Service::FindStore() const {
  if (surroundings_.saved_states != nullptr) return surroundings_.saved_states;
  return Fail(Code::kUnsupported, "this daemon was started without --store: it saves nothing");
}

FileAttempt Service::AttemptOf(const Request& request) {
  return {.applied = request.applied(), .is_again = request.has(wire::kFlagRetry)};
}

Result<Outcome> Service::SaveSequences(const Request& request,
                                       Result<std::vector<SequenceHandle>> sequences) {
  if (!sequences && !request.has(wire::kFlagRetry)) return std::unexpected(sequences.error());
  KVD_TRY(SavedStates* const store, FindStore());
  SavedStates::SaveCall call{.attempt = AttemptOf(request),
                             .uid = request.caller.uid,
                             .sequences = {},
                             .readable = {},
                             .profile = ProfileOf(request.submission.argument),
                             .name = {},
                             .replace = request.has(wire::kFlagForce),
                             .samplers = &samplers_};
  if (sequences) {
    call.sequences = std::move(*sequences);
  } else {
    call.readable = std::unexpected(sequences.error());
  }
  if ((request.submission.argument & wire::kSaveSizeOnly) == 0) {
    KVD_TRY(call.name, wire::ParseName(request.payload));
  }
  return WorkCall{.call = [store, call = std::move(call)](WorkControl& work) {
    return ReplyOf(store->Save(call, work));
  }};
}

Result<Outcome> Service::Save(const Request& request) {
  const auto info = FindReadable(request, "sequence", request.sequence());
  if (!info) return SaveSequences(request, std::unexpected(info.error()));
  return SaveSequences(request, std::vector{info->handle});
}

Result<Outcome> Service::SaveAll(const Request& request) {
  std::vector<SequenceHandle> sequences;
  for (const SequenceInfo& info : memory_.sequences().ListOf(request.caller.session)) {
    const bool is_published = (info.flags & layout::kSequencePublished) != 0;
    if (!is_published) sequences.push_back(info.handle);
  }
  if (!sequences.empty()) return SaveSequences(request, std::move(sequences));
  return SaveSequences(request, Fail(Code::kNotFound, "this session has no sequences to save"));
}

Result<Outcome> Service::Load(const Request& request) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(request.payload));
  // A client that has gone for good meanwhile leaves no sequences behind.
  return WorkCall{.call =
                      [this, store, owner = OwnerFor(request.caller), name = std::move(name),
                       attempt = AttemptOf(request)](WorkControl& work) {
                        return ReplyOf(store->Load(owner, name, &samplers_, attempt, work));
                      },
                  .abandoned = [this, session = request.caller.session] { Abandoned(session); }};
}

Result<Outcome> Service::Saved(const Request& request) {
  KVD_TRY(SavedStates* const store, FindStore());
  return WorkCall{.call = [store, uid = request.caller.uid](WorkControl& work) {
    return ReplyOf(store->List(uid, work));
  }};
}

Result<Outcome> Service::RemoveSaved(const Request& request) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(request.payload));
  return WorkCall{.call = [store, uid = request.caller.uid, name = std::move(name),
                           attempt = AttemptOf(request)](WorkControl&) {
    return ReplyOf(store->Remove(uid, name, attempt));
  }};
}

}  // namespace kvd
