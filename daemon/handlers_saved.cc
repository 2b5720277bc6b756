// The handlers of the verbs on saved states. The handlers check which sequences the caller may save
// and determine the owner of loaded sequences; SavedStates reads and writes the files on workers.
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
  return Fail(Code::kUnsupported,
              "this daemon was started without --store, so it cannot save or load states");
}

FileAttempt Service::AttemptOf(const VerbRequest& request) {
  return {.applied = request.applied(), .is_again = request.is_again()};
}

Result<Outcome> Service::SaveSequences(const VerbRequest& request, std::int64_t bits,
                                       Result<std::vector<SequenceHandle>> sequences) {
  if (!sequences && !request.is_again()) return std::unexpected(sequences.error());
  KVD_TRY(SavedStates* const store, FindStore());
  SavedStates::SaveCall call{.attempt = AttemptOf(request),
                             .owner = request.caller.owner,
                             .account = request.session->account(),
                             .sequences = {},
                             .readable = {},
                             .profile = ProfileOf(bits),
                             .name = {},
                             .replace = request.has(wire::kFlagForce),
                             .samplers = &samplers_};
  if (sequences) {
    call.sequences = std::move(*sequences);
  } else {
    call.readable = std::unexpected(sequences.error());
  }
  if ((bits & wire::kSaveSizeOnly) == 0) {
    KVD_TRY(call.name, wire::ParseName(request.payload));
  }
  return WorkCall{.call = [store, call = std::move(call)](WorkControl& work) {
    return ReplyOf(store->Save(call, work));
  }};
}

Result<Outcome> Service::Do(const Call<wire::SaveArgs>& call) {
  if (!call.found) return SaveSequences(call, call.args.bits, std::unexpected(call.found.error()));
  return SaveSequences(call, call.args.bits, std::vector{call.args.sequence});
}

Result<Outcome> Service::Do(const Call<wire::SaveAllArgs>& call) {
  std::vector<SequenceHandle> sequences;
  for (const SequenceInfo& info : memory_.sequences().ListOf(call.caller.session)) {
    const bool is_published = (info.flags & layout::kSequencePublished) != 0;
    if (!is_published) sequences.push_back(info.handle);
  }
  if (!sequences.empty()) return SaveSequences(call, call.args.bits, std::move(sequences));
  return SaveSequences(call, call.args.bits,
                       Fail(Code::kNotFound, "this session has no sequences to save"));
}

Result<Outcome> Service::Do(const Call<wire::LoadArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(call.payload));
  // If the session ends during the load, the daemon releases the loaded sequences.
  return WorkCall{.call =
                      [this, store, owner = OwnerFor(call.caller), name = std::move(name),
                       attempt = AttemptOf(call)](WorkControl& work) {
                        return ReplyOf(store->Load(owner, name, &samplers_, attempt, work));
                      },
                  .abandoned = [this, session = call.caller.session] { Abandoned(session); }};
}

Result<Outcome> Service::Do(const Call<wire::SavedArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  return WorkCall{.call = [store, owner = call.caller.owner](WorkControl& work) {
    return ReplyOf(store->List(owner, work));
  }};
}

Result<Outcome> Service::Do(const Call<wire::RemoveSavedArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(call.payload));
  return WorkCall{.call = [store, owner = call.caller.owner, name = std::move(name),
                           attempt = AttemptOf(call)](WorkControl&) {
    return ReplyOf(store->Remove(owner, name, attempt));
  }};
}

}  // namespace kvd
