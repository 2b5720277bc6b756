#include "daemon/verbs/service.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "daemon/stores/prompt_cache.h"
#include "engine/model/model_config.h"

namespace kvd {

// Dispatches a submission by the table of verbs, and holds the code that several verbs share, such
// as finding a sequence by its handle and checking the caller's access to it.

Service::Service(Engine& engine, Scheduler& scheduler, const Shares& shares,
                 Surroundings surroundings, const PrefixPolicy& prefixes)
    : engine_(engine),
      memory_(engine.memory()),
      scheduler_(scheduler),
      shares_(shares),
      surroundings_(std::move(surroundings)),
      prefixes_(prefixes),
      samplers_(memory_, engine.config().vocab_size),
      tokens_max_(std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells) {
  if (shares.others_admitted()) LimitOwners();
  if (surroundings_.prompt_cache != nullptr) surroundings_.prompt_cache->OfferAll();
}

Outcome Service::Handle(const std::shared_ptr<Session>& session, ReceivedSubmission& received,
                        Share share) {
  if (!received.check) return ErrorReply(received.check.error());
  const VerbRequest request{.session = session,
                            .submission = received.submission,
                            .payload = received.payload,
                            .caller = {.session = session->id(),
                                       .owner = session->owner(),
                                       .salt = session->identity().cache_salt},
                            .received = received,
                            .share = received.payload.empty()
                                         ? nullptr
                                         : std::make_shared<const Share>(std::move(share))};
  using Runner = Result<Outcome> (Service::*)(const VerbRequest&);
  static constexpr auto kRunners = []<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    return std::array<Runner, sizeof...(kIndices)>{&Service::Run<kIndices>...};
  }(std::make_index_sequence<wire::kVerbLast>{});
  if (wire::FindVerb(received.submission.verb) == nullptr) {
    return ErrorReply({Code::kInvalidArgument, "verb: unknown"});
  }
  Result<Outcome> outcome = (this->*kRunners[received.submission.verb - 1u])(request);
  if (!outcome) return ErrorReply(outcome.error());
  return std::move(*outcome);
}

template <std::size_t kIndex>
Result<Outcome> Service::Run(const VerbRequest& request) {
  using Row = wire::TypesAt<kIndex>;
  using Args = typename Row::Args;
  constexpr const wire::VerbRow& kRow = wire::kVerbRows[kIndex];
  if constexpr (kRow.caller == wire::CallerRule::kDaemonsUid) {
    if (!shares_.is_own(request.caller.owner)) {
      return Fail(Code::kPermission, kRow.name, ": only the daemon's own uid may use this verb");
    }
  }
  if constexpr (kRow.caller == wire::CallerRule::kTenantUid) {
    if (!shares_.MayListTenants(request.caller.owner)) {
      return Fail(Code::kPermission, kRow.name,
                  ": only the daemon's own uid and the uid of the tenants may use this verb");
    }
  }
  Call<Args> call{request, wire::ReadArguments<Args>(request.submission)};
  if (request.is_again()) {
    std::vector<SequenceHandle> made;
    KVD_TRY(const std::optional<wire::Remembered> remembered, FindRemembered(request, kRow, &made));
    if constexpr (kRow.resend == wire::Resend::kReply) {
      if (remembered) {
        KVD_TRY(typename Row::Reply reply, Row::Reply::Again(call.args, *remembered));
        return MakeReply(std::move(reply));
      }
    }
  }
  const auto look_up = [&](wire::ArgumentSlot slot, std::uint64_t handle,
                           SequenceInfo* info) -> Status {
    const wire::SlotRule& rule = kRow.slot(slot);
    if (rule.kind != wire::SlotKind::kHandle) return {};
    KVD_TRY(*info, Find(request, rule, static_cast<SequenceHandle>(handle)));
    return {};
  };
  call.found = look_up(wire::ArgumentSlot::kSequence, request.submission.sequence, &call.sequence);
  if (call.found) {
    call.found =
        look_up(wire::ArgumentSlot::kSequence2, request.submission.sequence2, &call.sequence2);
  }
  const bool handler_looks = kRow.resend == wire::Resend::kHandler && request.is_again();
  if (!handler_looks) KVD_CHECK_OK(call.found);
  auto answer = Do(std::as_const(call));
  using Answer = typename decltype(answer)::value_type;
  static_assert(std::same_as<Answer, Outcome> || std::same_as<Answer, typename Row::Reply>,
                "a handler returns the reply of its row");
  if constexpr (std::same_as<Answer, Outcome>) {
    return answer;
  } else {
    if (!answer) return std::unexpected(std::move(answer).error());
    return MakeReply(std::move(*answer));
  }
}

void Service::SessionLost(SessionId session) { scheduler_.CancelSession(session); }

void Service::SessionClosed(SessionId session) {
  scheduler_.CancelSession(session);
  uploads_.erase(session);
  LetGoOf(session);
}

void Service::Abandoned(SessionId session) {
  const std::vector<SessionEntry> stored = memory_.sessions().List();
  // If the session is still stored, its client has reconnected or may reconnect, so its sequences
  // stay.
  if (std::ranges::find(stored, session, &SessionEntry::id) == stored.end()) LetGoOf(session);
}

void Service::LetGoOf(SessionId session) {
  for (const SequenceInfo& sequence : memory_.sequences().ListOf(session)) {
    const bool stays =
        (sequence.flags & (layout::kSequencePublished | layout::kSequenceRetained)) != 0;
    // An error of LetGo (the sequence was dropped in the meantime) must not stop the loop.
    if (!stays) (void)LetGo(sequence.handle);
  }
  if (prefixes_.retained_max > 0) (void)memory_.prefixes().LimitRetained(prefixes_.retained_max);
  (void)memory_.sessions().Close(session);  // Close returns kNotFound if the session was not stored
}

Result<SequenceInfo> Service::Find(const VerbRequest& request, const wire::SlotRule& rule,
                                   SequenceHandle handle) const {
  Result<SequenceInfo> info = memory_.sequences().Query(handle);
  if (!info) {
    if (info.error().code == Code::kNotFound) return FailNotFound(rule.name, handle);
    return std::unexpected(info.error());
  }
  KVD_CHECK_OK(
      CheckAccess(rule.access, request.caller, *info, request.has(wire::kFlagForce), rule.name));
  if (rule.access == wire::Access::kEdit) KVD_CHECK_OK(scheduler_.CheckIdle(handle));
  return info;
}

Result<AcquiredSequence> Service::AcquireForWrite(const VerbRequest& request,
                                                  const SequenceInfo& info) {
  if ((info.flags & layout::kSequenceRetained) == 0) return AcquiredSequence();
  SequenceOwner owner = OwnerFor(request.caller);
  owner.namespace_salt = info.owner.namespace_salt;
  owner.life = info.owner.life;
  KVD_CHECK_OK(memory_.sequences().SetOwner(info.handle, owner, 0, layout::kSequenceRetained));
  return AcquiredSequence(memory_, info);
}

SequenceOwner Service::OwnerFor(const Caller& caller) const {
  return {.id = caller.owner, .session = caller.session, .namespace_salt = caller.salt};
}

// Retries: requests that a client sends again after a connection or a daemon was lost. The records
// of applied requests are in `meta` and were committed together with the changes that the requests
// made.

namespace {

std::string RequestText(RequestId request) {
  return Concat("request ", static_cast<std::uint64_t>(request));
}

}  // namespace

Result<std::optional<wire::Remembered>> Service::FindRemembered(const VerbRequest& request,
                                                                const wire::VerbRow& row,
                                                                std::vector<SequenceHandle>* made) {
  if (row.resend == wire::Resend::kResume || row.resend == wire::Resend::kHandler) {
    return std::nullopt;
  }
  const Result<AppliedReply> applied =
      memory_.sessions().FindApplied(request.caller.session, request.id());
  if (!applied && applied.error().code != Code::kNotFound) {
    // Read-only requests are not recorded; a retry executes them again.
    if (!row.is_remembered()) return std::nullopt;
    return std::unexpected(applied.error());
  }
  if (applied && applied->kind != request.submission.verb) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()),
                " was applied as another verb, ", applied->kind);
  }
  const bool drops_parts =
      row.parts == wire::Parts::kScratch || (row.parts == wire::Parts::kAnswer && !applied);
  if (drops_parts) DropPartsOf(request);
  if (!applied) return std::nullopt;
  if (row.parts == wire::Parts::kAnswer) {
    *made = memory_.sessions().CreatedBy(request.caller.session, request.id());
  }
  return wire::Remembered{.sequence = applied->sequence,
                          .cells = applied->cells,
                          .replayed = applied->replayed,
                          .made = *made,
                          .start_token = engine_.config().decoder_start_token};
}

void Service::DropPartsOf(const VerbRequest& request) {
  for (const SequenceHandle part :
       memory_.sessions().CreatedBy(request.caller.session, request.id())) {
    scheduler_.CancelSequence(part);
    (void)memory_.sequences().Drop(part);
  }
}

Result<std::vector<TokenId>> Service::TokensOf(const SequenceInfo& info, std::uint32_t begin,
                                               std::uint32_t end) const {
  std::vector<TokenId> tokens;
  if (begin < std::min(end, info.cell_count)) {
    std::vector<Pos> positions;
    KVD_CHECK_OK(memory_.holds().ReadCells(
        info.handle, begin, std::min(end, info.cell_count) - begin, &tokens, &positions));
  }
  if (end <= info.cell_count) return tokens;
  KVD_TRY(const std::vector<TokenId> given, memory_.sequences().GivenTokens(info.handle));
  const std::size_t first = std::max(begin, info.cell_count) - info.cell_count;
  const std::size_t last = std::min<std::size_t>(end - info.cell_count, given.size());
  if (first < last) {
    tokens.insert(tokens.end(), given.begin() + static_cast<std::ptrdiff_t>(first),
                  given.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return tokens;
}

Result<Service::Progress> Service::ProgressOf(const VerbRequest& request, const SequenceInfo& info,
                                              std::span<const TokenId> prompt) const {
  Progress progress{.first_cell = info.cell_count, .done = 0, .predicted = {}, .is_known = false};
  if (!request.has(wire::kFlagRetry) || info.request_session != request.caller.session ||
      info.request < request.id()) {
    return progress;
  }
  const auto gone = [&](const char* why) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()), " was completed, but ",
                why, ", so its answer cannot be repeated");
  };
  if (info.request > request.id())
    return gone("another request has computed on its sequence since");
  if (!info.request_first_cell) return gone("its sequence was edited since");
  progress.is_known = true;
  progress.first_cell = *info.request_first_cell;
  const std::uint32_t end = info.cell_count + info.given_count;
  progress.done = end - progress.first_cell;
  KVD_TRY(const std::vector<TokenId> tokens, TokensOf(info, progress.first_cell, end));
  const std::size_t own = std::min(tokens.size(), prompt.size());
  if (tokens.size() != progress.done ||
      !std::ranges::equal(std::span(tokens).first(own), prompt.first(own))) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()),
                ": the earlier attempt had other tokens");
  }
  progress.predicted.assign(tokens.begin() + static_cast<std::ptrdiff_t>(own), tokens.end());
  return progress;
}

}  // namespace kvd
