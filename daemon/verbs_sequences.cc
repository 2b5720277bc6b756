// The verbs on sequences and their positions: nothing here computes, everything acts on what is
// committed.
#include <algorithm>
#include <chrono>
#include <string>

#include "daemon/service.h"

namespace kvd {
namespace {

std::uint64_t UnixMilliseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

wire::SequenceEntry EntryOf(const SequenceInfo& info, const SequenceUse& use,
                            std::uint32_t owner_pid, std::uint64_t now_ms) {
  return wire::SequenceEntry{
      .handle = static_cast<std::uint64_t>(info.handle),
      .session = static_cast<std::uint64_t>(info.owner.session),
      .owner_uid = info.owner.uid,
      .owner_pid = owner_pid,
      .flags = info.flags,
      .cell_count = info.cell_count,
      .shared_cells = use.shared_cells,
      .extent_count = info.extent_count,
      .delta_count = use.delta_count,
      .first_pos = info.first_pos.value,
      .next_pos = info.next_pos.value,
      .reserved = 0,
      .age_ms = now_ms > info.created_unix_ms ? now_ms - info.created_unix_ms : 0};
}

Result<Outcome> CountOutcome(const Result<std::uint32_t>& count) {
  if (!count) return std::unexpected(count.error());
  Reply reply;
  reply.value0 = *count;
  return reply;
}

}  // namespace

Result<Reply> Service::Create(const Request& request) {
  Reply reply;
  SequenceOwner owner = OwnerFor(request.caller);
  if (request.submission.argument != 0) {
    owner.namespace_salt = static_cast<std::uint64_t>(request.submission.argument);
  }
  KVD_TRY(reply.sequence, memory_.sequences().Create(owner, request.applied()));
  return reply;
}

Result<Outcome> Service::Fork(const Request& request) {
  const std::int64_t count = request.submission.argument;
  if (count < 1 || count > layout::kForksMax) {
    return Fail(Code::kInvalidArgument, "argument: " + std::to_string(count) +
                                            " forks, a request makes 1 to " +
                                            std::to_string(layout::kForksMax));
  }
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  const std::int32_t cells = request.submission.p0;
  fork_handles_.assign(static_cast<std::size_t>(count), SequenceHandle::kNone);
  const auto before = std::chrono::steady_clock::now();
  const Status forked = memory_.sequences().Fork(
      request.sequence(), OwnerFor(request.caller), fork_handles_,
      cells < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(cells)),
      request.applied());
  if (!forked && forked.error().code == Code::kNeedsReplay) {
    return ForkWithReplay(request, static_cast<std::uint32_t>(cells), fork_handles_.size());
  }
  KVD_CHECK_OK(forked);
  const auto after = std::chrono::steady_clock::now();
  if (info.owner.uid == request.caller.uid) samplers_.Inherit(info.handle, fork_handles_);
  Reply reply;
  reply.sequence = fork_handles_.front();
  reply.value0 = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
  reply.value1 = cells < 0 ? info.cell_count : cells;
  const auto handles = std::as_bytes(std::span(fork_handles_));
  reply.output.assign(handles.begin(), handles.end());
  return reply;
}

Result<Reply> Service::Drop(const Request& request) {
  // A computing request on it is no obstacle: it is cancelled.
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  KVD_CHECK_OK(
      CheckChange(AccessOf(request.caller, info), request.has(wire::kFlagForce), "sequence", info));
  scheduler_.CancelSequence(info.handle);
  KVD_CHECK_OK(memory_.sequences().Drop(info.handle, request.applied()));
  return Reply{};
}

Result<Outcome> Service::CopyRange(const Request& request) {
  KVD_TRY(const PosRange range, RangeOf(request.submission));
  KVD_TRY(const SequenceInfo source, FindReadable(request, "sequence", request.sequence()));
  KVD_TRY(const SequenceInfo destination,
          FindChangeable(request, "sequence2", request.sequence2()));
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(request, destination));
  const Result<std::uint32_t> cells =
      memory_.sequences().CopyRange(source.handle, destination.handle, range, request.applied());
  const bool needs_replay = !cells && cells.error().code == Code::kNeedsReplay;
  Result<Outcome> outcome = needs_replay ? CopyWithReplay(request, range) : CountOutcome(cells);
  if (outcome) acquired.Keep();
  return outcome;
}

Result<Outcome> Service::RemoveRange(const Request& request) {
  KVD_TRY(const PosRange range, RangeOf(request.submission));
  KVD_TRY(const SequenceInfo info, FindChangeable(request, "sequence", request.sequence()));
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(request, info));
  const Result<std::uint32_t> cells =
      memory_.sequences().RemoveRange(info.handle, range, request.applied());
  const bool needs_replay = !cells && cells.error().code == Code::kNeedsReplay;
  Result<Outcome> outcome =
      needs_replay ? RemoveWithReplay(request, info.handle, range) : CountOutcome(cells);
  if (outcome) acquired.Keep();
  return outcome;
}

Result<Reply> Service::Keep(const Request& request) {
  KVD_TRY(const SequenceInfo kept, FindReadable(request, "sequence", request.sequence()));
  if (kept.owner.session != request.caller.session ||
      (kept.flags & layout::kSequencePublished) != 0) {
    return Fail(Code::kPermission, "sequence " +
                                       std::to_string(static_cast<std::uint64_t>(kept.handle)) +
                                       ": is not one of this session's own");
  }
  for (const SequenceInfo& other : memory_.sequences().ListOf(request.caller.session)) {
    if (other.handle != kept.handle) scheduler_.CancelSequence(other.handle);
  }
  KVD_CHECK_OK(memory_.sequences().Keep(kept.handle, request.caller.session, request.applied()));
  return Reply{};
}

Result<Reply> Service::Clear(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindChangeable(request, "sequence", request.sequence()));
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(request, info));
  KVD_CHECK_OK(memory_.sequences().Clear(info.handle, request.applied()));
  acquired.Keep();
  return Reply{};
}

Result<Reply> Service::Add(const Request& request) {
  KVD_TRY(const PosRange range, RangeOf(request.submission));
  const std::int64_t delta = request.submission.argument;
  if (delta < INT32_MIN || delta > INT32_MAX) {
    return Fail(Code::kInvalidArgument,
                "argument: a shift by " + std::to_string(delta) + " does not fit a position");
  }
  KVD_TRY(const SequenceInfo info, FindChangeable(request, "sequence", request.sequence()));
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(request, info));
  KVD_CHECK_OK(memory_.sequences().AddPositions(
      info.handle, range, static_cast<std::int32_t>(delta), request.applied()));
  acquired.Keep();
  return Reply{};
}

Result<Reply> Service::Query(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  KVD_TRY(const SequenceUse use, memory_.sequences().QueryUse(info.handle));
  Reply reply;
  reply.sequence = info.handle;
  reply.Append(
      EntryOf(info, use, surroundings_.pid_of_session(info.owner.session), UnixMilliseconds()));
  return reply;
}

// What each sequence shares takes a look at all of its extents: not on the io thread.
Result<Outcome> Service::List(const Request& request) {
  struct Listed {
    SequenceInfo info;
    std::uint32_t owner_pid = 0;
  };
  std::vector<Listed> listed;
  for (const SequenceInfo& info : memory_.sequences().List()) {
    if (AccessOf(request.caller, info) == SequenceAccess::kNone) continue;
    listed.push_back({info, surroundings_.pid_of_session(info.owner.session)});
  }
  return WorkCall{.call = [&memory = memory_, listed = std::move(listed)](WorkControl& work) {
    const std::uint64_t now_ms = UnixMilliseconds();
    Reply reply;
    reply.unit_bytes = sizeof(wire::SequenceEntry);
    for (const auto& [info, owner_pid] : listed) {
      if (const Status wanted = work.Continue(); !wanted) return ErrorReply(wanted.error());
      const Result<SequenceUse> use = memory.sequences().QueryUse(info.handle);
      if (!use) continue;  // dropped meanwhile
      reply.Append(EntryOf(info, *use, owner_pid, now_ms));
    }
    return reply;
  }};
}

Result<Outcome> Service::ReadTokens(const Request& request) {
  const std::int64_t first = request.submission.p0;
  const std::int64_t wanted = request.submission.argument;
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  if (first < 0 || first > info.cell_count) {
    return Fail(Code::kInvalidArgument, "p0: cell " + std::to_string(first) +
                                            " of a sequence that has " +
                                            std::to_string(info.cell_count));
  }
  if (wanted < -1) {
    return Fail(Code::kInvalidArgument,
                "argument: " + std::to_string(wanted) + " is no number of cells, nor -1 for all");
  }
  const std::int64_t left = std::int64_t{info.cell_count} - first;
  const std::int64_t count = wanted < 0 ? left : std::min(wanted, left);
  const auto read = [&memory = memory_, handle = info.handle, first,
                     count](WorkControl& work) -> Result<Reply> {
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    if (count > 0) {
      KVD_CHECK_OK(memory.holds().ReadCells(handle, static_cast<std::uint32_t>(first),
                                            static_cast<std::uint32_t>(count), &tokens,
                                            &positions));
    }
    WorkMeter meter(work);
    Reply reply;
    reply.sequence = handle;
    reply.value0 = static_cast<std::int64_t>(tokens.size());
    reply.unit_bytes = 2 * sizeof(std::int32_t);
    reply.output.reserve(tokens.size() * reply.unit_bytes);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      KVD_CHECK_OK(meter.Spend(reply.unit_bytes));
      reply.Append(tokens[i]);
      reply.Append(positions[i].value);
    }
    return reply;
  };
  constexpr std::int64_t kFewCells = 4096;
  if (count <= kFewCells) {
    KVD_TRY(Reply reply, read(Uncontrolled()));
    return reply;
  }
  return WorkCall{.call = [read](WorkControl& work) { return ReplyOf(read(work)); }};
}

}  // namespace kvd
