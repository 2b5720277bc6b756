// The handlers of the verbs on sequences: positions, life and history. The verbs act on committed
// cells and compute no tokens.
#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "base/clock.h"
#include "daemon/sessions/expiries.h"
#include "daemon/verbs/service.h"

namespace kvd {

// The handlers of the verbs on sequences and their positions. The verbs of this file act on
// committed cells and compute no tokens.

namespace {

std::uint32_t Bounded(std::uint64_t number) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
}

wire::SequenceEntry EntryOf(const SequenceInfo& info, const SequenceUse& use,
                            const RequestStanding& request, std::uint32_t owner_uid,
                            std::uint32_t owner_pid, std::uint64_t now_ms) {
  return wire::SequenceEntry{
      .handle = static_cast<std::uint64_t>(info.handle),
      .session = static_cast<std::uint64_t>(info.owner.session),
      .owner_uid = owner_uid,
      .owner_pid = owner_pid,
      .flags = info.flags,
      .cell_count = info.cell_count,
      .shared_cells = use.shared_cells,
      .extent_count = info.extent_count,
      .delta_count = use.delta_count,
      .first_pos = info.first_pos.value,
      .next_pos = info.next_pos.value,
      .expires_in_seconds = SecondsLeft(info.owner.life.expires_unix_ms, now_ms),
      .age_ms = now_ms > info.created_unix_ms ? now_ms - info.created_unix_ms : 0,
      .request_state = request.state,
      .request_tokens_done = Bounded(request.tokens.done),
      .request_tokens = Bounded(request.tokens.wanted),
      .parked_ms = Bounded(static_cast<std::uint64_t>(request.parked_for.count()))};
}

std::uint64_t NanosecondsSince(std::chrono::steady_clock::time_point before) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now() - before)
                                        .count());
}

}  // namespace

Result<wire::CreateReply> Service::Do(const Call<wire::CreateArgs>& call) {
  SequenceOwner owner = OwnerFor(call.caller);
  if (call.args.cache_salt != 0) owner.namespace_salt = call.args.cache_salt;
  owner.life = LifeOf(call, call.args.ttl_seconds);
  KVD_TRY(const SequenceHandle made, memory_.sequences().Create(owner, call.applied()));
  NoteLife(owner.life);
  return wire::CreateReply{.sequence = made};
}

Result<Outcome> Service::Do(const Call<wire::ForkArgs>& call) {
  const wire::ForkArgs& args = call.args;
  std::vector<SequenceHandle> forks(args.count, SequenceHandle::kNone);
  SequenceOwner owner = OwnerFor(call.caller);
  owner.life = LifeOf(call, args.ttl_seconds);
  const auto before = std::chrono::steady_clock::now();
  const Status forked =
      memory_.sequences().Fork(args.sequence, owner, forks, args.cells, call.applied());
  if (!forked && forked.error().code == Code::kNeedsReplay) return ForkWithReplay(call);
  KVD_CHECK_OK(forked);
  const std::uint64_t nanoseconds = NanosecondsSince(before);
  NoteLife(owner.life);
  if (call.sequence.owner.id == call.caller.owner) samplers_.Inherit(args.sequence, forks);
  return MakeReply(wire::ForkReply{.first = forks.front(),
                                   .nanoseconds = nanoseconds,
                                   .cells = args.cells.value_or(call.sequence.cell_count),
                                   .handles = std::move(forks)});
}

Result<wire::NoReply> Service::Do(const Call<wire::DropArgs>& call) {
  // If a computing request works on the sequence, it is cancelled before the sequence is dropped.
  scheduler_.CancelSequence(call.args.sequence);
  KVD_CHECK_OK(memory_.sequences().Drop(call.args.sequence, call.applied()));
  return wire::NoReply{};
}

Result<Outcome> Service::Do(const Call<wire::CopyRangeArgs>& call) {
  const wire::CopyRangeArgs& args = call.args;
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, call.sequence2));
  const Result<std::uint32_t> cells =
      memory_.sequences().CopyRange(args.source, args.destination, args.range, call.applied());
  if (!cells && cells.error().code == Code::kNeedsReplay) {
    Result<Outcome> outcome = CopyWithReplay(call);
    if (outcome) acquired.Keep();
    return outcome;
  }
  if (!cells) return std::unexpected(cells.error());
  acquired.Keep();
  return MakeReply(wire::EditReply{.cells = *cells});
}

Result<Outcome> Service::Do(const Call<wire::RemoveRangeArgs>& call) {
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, call.sequence));
  const Result<std::uint32_t> cells =
      memory_.sequences().RemoveRange(call.args.sequence, call.args.range, call.applied());
  if (!cells && cells.error().code == Code::kNeedsReplay) {
    Result<Outcome> outcome = RemoveWithReplay(call);
    if (outcome) acquired.Keep();
    return outcome;
  }
  if (!cells) return std::unexpected(cells.error());
  acquired.Keep();
  return MakeReply(wire::EditReply{.cells = *cells});
}

Result<wire::NoReply> Service::Do(const Call<wire::KeepArgs>& call) {
  for (const SequenceInfo& other : memory_.sequences().ListOf(call.caller.session)) {
    if (other.handle != call.args.sequence) scheduler_.CancelSequence(other.handle);
  }
  KVD_CHECK_OK(memory_.sequences().Keep(call.args.sequence, call.caller.session, call.applied()));
  return wire::NoReply{};
}

Result<wire::NoReply> Service::Do(const Call<wire::ClearArgs>& call) {
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, call.sequence));
  KVD_CHECK_OK(memory_.sequences().Clear(call.args.sequence, call.applied()));
  acquired.Keep();
  return wire::NoReply{};
}

Result<wire::NoReply> Service::Do(const Call<wire::AddArgs>& call) {
  const wire::AddArgs& args = call.args;
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, call.sequence));
  KVD_CHECK_OK(
      memory_.sequences().AddPositions(args.sequence, args.range, args.delta, call.applied()));
  acquired.Keep();
  return wire::NoReply{};
}

Result<wire::QueryReply> Service::Do(const Call<wire::QueryArgs>& call) {
  const SequenceInfo& info = call.sequence;
  KVD_TRY(const SequenceUse use, memory_.sequences().QueryUse(info.handle));
  return wire::QueryReply{
      .sequence = info.handle,
      .entry = EntryOf(info, use, scheduler_.StandingOf(info.handle), shares_.UidOf(info.owner.id),
                       surroundings_.pid_of_session(info.owner.session), NowUnixMs())};
}

// Counting a sequence's shared cells visits all of the sequence's extents, so a worker counts the
// cells, not the io thread.
Result<Outcome> Service::Do(const Call<wire::ListArgs>& call) {
  struct Listed {
    SequenceInfo info;
    std::uint32_t owner_pid = 0;
  };
  std::vector<Listed> listed;
  for (const SequenceInfo& info : memory_.sequences().List()) {
    if (AccessOf(call.caller, info) == SequenceAccess::kNone) continue;
    listed.push_back({info, surroundings_.pid_of_session(info.owner.session)});
  }
  return WorkCall{.call = [&memory = memory_, &shares = shares_, &scheduler = scheduler_,
                           listed = std::move(listed)](WorkControl& work) {
    const std::uint64_t now_ms = NowUnixMs();
    wire::ListReply<wire::SequenceEntry> reply;
    for (const auto& [info, owner_pid] : listed) {
      if (const Status wanted = work.Continue(); !wanted) return ErrorReply(wanted.error());
      const Result<SequenceUse> use = memory.sequences().QueryUse(info.handle);
      if (!use) continue;  // the sequence was dropped in the meantime
      reply.entries.push_back(EntryOf(info, *use, scheduler.StandingOf(info.handle),
                                      shares.UidOf(info.owner.id), owner_pid, now_ms));
    }
    return MakeReply(std::move(reply));
  }};
}

Result<Outcome> Service::Do(const Call<wire::ReadTokensArgs>& call) {
  const auto first = static_cast<std::uint32_t>(call.args.first_cell);
  const std::uint32_t cells = call.sequence.cell_count;
  if (first > cells) {
    return Fail(Code::kInvalidArgument, "read_tokens.first_cell: ", first, ", the sequence has ",
                cells);
  }
  const std::uint32_t count = std::min(call.args.count.value_or(cells - first), cells - first);
  const auto read = [&memory = memory_, handle = call.args.sequence, first,
                     count](WorkControl& work) -> Result<wire::ReadTokensReply> {
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    if (count > 0)
      KVD_CHECK_OK(memory.holds().ReadCells(handle, first, count, &tokens, &positions));
    WorkMeter meter(work);
    wire::ReadTokensReply reply{.sequence = handle, .count = tokens.size()};
    reply.cells.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      KVD_CHECK_OK(meter.Spend(sizeof(wire::TokenAndPosition)));
      reply.cells.push_back({.token = tokens[i], .pos = positions[i].value});
    }
    return reply;
  };
  constexpr std::uint32_t kFewCells = 4096;
  if (count <= kFewCells) {
    KVD_TRY(wire::ReadTokensReply reply, read(Uncontrolled()));
    return MakeReply(std::move(reply));
  }
  return WorkCall{.call = [read](WorkControl& work) { return ReplyOf(read(work)); }};
}

// kSetLife, and the life of sequences that requests create: their time of expiry, and whether other
// prompts may reuse their cells.

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

// kLog lists a sequence and its ancestors (each entry is forked from the next one), each with its
// last edits. The list ends at a parent that the caller may not read, as if that parent did not
// exist.

namespace {

wire::LogRecord RecordOf(const SequenceHistory& history, std::uint32_t owner_uid) {
  wire::LogRecord record{};
  record.sequence = static_cast<std::uint64_t>(history.sequence.handle);
  record.parent = static_cast<std::uint64_t>(history.parent);
  record.created_unix_ms = history.sequence.created_unix_ms;
  record.parent_cells = history.parent_cells;
  record.owner_uid = owner_uid;
  record.cell_count = history.sequence.cell_count;
  record.edit_count = history.edit_count;
  std::ranges::transform(history.edits, record.edits, [](const SequenceEdit& edit) {
    return layout::EditRecord{.unix_ms = edit.unix_ms,
                              .first = edit.range.begin.value,
                              .end = edit.range.end.value,
                              .delta = edit.delta,
                              .kind = edit.kind,
                              .verb = edit.request_kind};
  });
  return record;
}

}  // namespace

Result<wire::ListReply<wire::LogRecord>> Service::Do(const Call<wire::LogArgs>& call) {
  KVD_TRY(SequenceHistory history, memory_.sequences().QueryHistory(call.args.sequence));
  wire::ListReply<wire::LogRecord> reply;
  while (true) {
    wire::LogRecord& record =
        reply.entries.emplace_back(RecordOf(history, shares_.UidOf(history.sequence.owner.id)));
    if (history.parent == SequenceHandle::kNone) break;
    Result<SequenceHistory> parent = memory_.sequences().QueryHistory(history.parent);
    if (!parent || AccessOf(call.caller, parent->sequence) == SequenceAccess::kNone) {
      // If the sequence belongs to the caller, its parent's handle stays in the record, because the
      // caller has made the fork. For a sequence of another owner, the handle of the parent is
      // removed from the record.
      if (history.sequence.owner.id != call.caller.owner) record.parent = record.parent_cells = 0;
      break;
    }
    if (reply.entries.size() == wire::kLogSequencesMax) break;
    history = std::move(*parent);
  }
  return reply;
}

}  // namespace kvd
