// Dispatch, and what several verbs share: the way from a handle to a sequence that the caller may
// use.
#include "daemon/service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/prompt_cache.h"
#include "shm/wire_check.h"

namespace kvd {

Service::Service(Engine& engine, Scheduler& scheduler, const QuotaPolicy& quotas,
                 Surroundings surroundings, const PrefixOptions& prefixes)
    : engine_(engine),
      memory_(engine.memory()),
      scheduler_(scheduler),
      quotas_(quotas),
      surroundings_(std::move(surroundings)),
      prefixes_(prefixes),
      samplers_(memory_, engine.config().vocab_size),
      held_(quotas),
      tokens_max_(std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells) {
  memory_.SetShareRules(&quotas);
  if (surroundings_.prompt_cache != nullptr) surroundings_.prompt_cache->OfferAll();
}

Outcome Service::Handle(const std::shared_ptr<Session>& session, ReceivedSubmission& received,
                        HeldCharge charge) {
  if (!received.check) return ErrorReply(received.check.error());
  // The own uid is bounded by its completion rings. The submission just taken counts itself.
  if (!quotas_.is_own(session->uid())) {
    const std::uint32_t others = surroundings_.requests_in_flight(session->uid()) - 1;
    if (Status allowed = quotas_.CheckRequests(session->uid(), others); !allowed) {
      return ErrorReply(allowed.error());
    }
  }
  const Request request{.session = session,
                        .submission = received.submission,
                        .payload = received.payload,
                        .caller = {.session = session->id(),
                                   .uid = session->uid(),
                                   .salt = session->identity().cache_salt},
                        .received = received,
                        .charge = received.payload.empty()
                                      ? nullptr
                                      : std::make_shared<const HeldCharge>(std::move(charge))};
  if (request.has(wire::kFlagRetry)) {
    Result<std::optional<Reply>> again = AnswerAgain(request);
    if (!again) return ErrorReply(again.error());
    if (*again) return std::move(**again);
  }
  Result<Outcome> outcome = Dispatch(request);
  if (!outcome) return ErrorReply(outcome.error());
  return std::move(*outcome);
}

Result<Outcome> Service::Dispatch(const Request& request) {
  using wire::Verb;
  switch (static_cast<Verb>(request.submission.verb)) {
    case Verb::kPing: {
      Reply reply;
      reply.output.assign(request.payload.begin(), request.payload.end());
      return reply;
    }
    case Verb::kInfo: return Info(request);
    case Verb::kProfile: return Profile();
    case Verb::kCreate: return Create(request);
    case Verb::kFork: return Fork(request);
    case Verb::kDrop: return Drop(request);
    case Verb::kCopyRange: return CopyRange(request);
    case Verb::kRemoveRange: return RemoveRange(request);
    case Verb::kKeep: return Keep(request);
    case Verb::kClear: return Clear(request);
    case Verb::kAdd: return Add(request);
    case Verb::kDivide: return Divide(request);
    case Verb::kQuery: return Query(request);
    case Verb::kDecode: return Decode(request);
    case Verb::kGenerate: return Generate(request);
    case Verb::kCancel: return Cancel(request);
    case Verb::kReadTokens: return ReadTokens(request);
    case Verb::kReadText: return ReadText(request);
    case Verb::kList: return List(request);
    case Verb::kPublish: return Publish(request);
    case Verb::kUnpublish: return Unpublish(request);
    case Verb::kAttach: return Attach(request);
    case Verb::kSnapshots: return Snapshots(request);
    case Verb::kTokenize: return Tokenize(request);
    case Verb::kDetokenize: return Detokenize(request);
    case Verb::kChat: return Chat(request);
    case Verb::kDefrag: return Defrag(request);
    case Verb::kEmbed: return Embed(request);
    case Verb::kEncode: return Encode(request);
    case Verb::kRetain: return Retain(request);
    case Verb::kPin: return Pin(request);
    case Verb::kDropRetained: return DropRetained(request);
    case Verb::kSave: return Save(request);
    case Verb::kLoad: return Load(request);
    case Verb::kSaved: return Saved(request);
    case Verb::kRemoveSaved: return RemoveSaved(request);
    case Verb::kSaveAll: return SaveAll(request);
    case Verb::kExportState: return ExportState(request);
    case Verb::kUploadState: return UploadState(request);
    case Verb::kImportState: return ImportState(request);
    case Verb::kCache: return Cache();
  }
  return Fail(Code::kInvalidArgument,
              "verb: " + std::to_string(request.submission.verb) + " is not known");
}

void Service::SessionLost(SessionId session) { scheduler_.CancelSession(session); }

void Service::SessionClosed(SessionId session) {
  scheduler_.CancelSession(session);
  uploads_.erase(session);
  LetGoOf(session);
}

void Service::Abandoned(SessionId session) {
  const std::vector<StoredSession> stored = memory_.sessions().List();
  // One that is stored is here again or may come.
  if (std::ranges::find(stored, session, &StoredSession::id) == stored.end()) LetGoOf(session);
}

void Service::LetGoOf(SessionId session) {
  for (const SequenceInfo& sequence : memory_.sequences().ListOf(session)) {
    const bool stays =
        (sequence.flags & (layout::kSequencePublished | layout::kSequenceRetained)) != 0;
    // One that went meanwhile must not keep the others.
    if (!stays) (void)LetGo(sequence.handle);
  }
  if (prefixes_.retained_max > 0) (void)memory_.prefixes().LimitRetained(prefixes_.retained_max);
  (void)memory_.sessions().Close(session);  // kNotFound: one that could not be taken up again
}

Result<SequenceInfo> Service::FindReadable(const Request& request, const char* field,
                                           SequenceHandle handle) const {
  Result<SequenceInfo> info = memory_.sequences().Query(handle);
  if (!info) {
    if (info.error().code == Code::kNotFound) return FailNotFound(field, handle);
    return std::unexpected(info.error());
  }
  KVD_CHECK_OK(CheckRead(AccessOf(request.caller, *info), field, handle));
  return info;
}

Result<SequenceInfo> Service::FindChangeable(const Request& request, const char* field,
                                             SequenceHandle handle) const {
  KVD_TRY(const SequenceInfo info, FindReadable(request, field, handle));
  KVD_CHECK_OK(
      CheckChange(AccessOf(request.caller, info), request.has(wire::kFlagForce), field, info));
  KVD_CHECK_OK(scheduler_.CheckIdle(handle));
  return info;
}

Result<AcquiredSequence> Service::AcquireForWrite(const Request& request,
                                                  const SequenceInfo& info) {
  if ((info.flags & layout::kSequenceRetained) == 0) return AcquiredSequence();
  SequenceOwner owner = OwnerFor(request.caller);
  owner.namespace_salt = info.owner.namespace_salt;
  KVD_CHECK_OK(memory_.sequences().SetOwner(info.handle, owner, 0, layout::kSequenceRetained));
  return AcquiredSequence(memory_, info);
}

SequenceOwner Service::OwnerFor(const Caller& caller) const {
  return {.uid = caller.uid, .session = caller.session, .namespace_salt = caller.salt};
}

Result<PosRange> RangeOf(const wire::Submission& submission) {
  const PosRange range{.begin = Pos{std::max(submission.p0, 0)},
                       .end = submission.p1 < 0 ? kPosEnd : Pos{submission.p1}};
  if (range.begin > range.end) {
    return Fail(Code::kInvalidArgument, "p0: " + std::to_string(submission.p0) +
                                            " is more than p1, " + std::to_string(submission.p1));
  }
  return range;
}

}  // namespace kvd
