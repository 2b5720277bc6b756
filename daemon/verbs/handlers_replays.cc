// This file has the removals, forks and copies on models with recurrent state that need the state
// after a cell without a checkpoint. To get that state, the daemon computes tokens again. A fork or
// copy first forks the whole sequence and then removes the last cells of the new fork.
#include <cstring>
#include <string>
#include <utility>

#include "daemon/verbs/service.h"

namespace kvd {
namespace {

// Returns the positions of the cells that follow the sequence's first cell_count cells.
Result<PosRange> RangeBehind(Memory& memory, SequenceHandle sequence, std::uint32_t cell_count) {
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_CHECK_OK(memory.holds().ReadCells(sequence, cell_count, 1, &tokens, &positions));
  if (positions.empty()) {
    return Fail(Code::kConflict, "cell_count: the source has become shorter in the meantime");
  }
  return PosRange{positions[0], kPosEnd};
}

}  // namespace

Result<Outcome> Service::SubmitReplay(const VerbRequest& request, SequenceHandle sequence,
                                      PosRange range, const RequestTag& applied,
                                      AfterReplay after) {
  KVD_CHECK_OK(scheduler_.Submit(std::make_unique<ReplayRequest>(
      request.origin(), engine_, sequence, range, applied, std::move(after))));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::RemoveWithReplay(const Call<wire::RemoveRangeArgs>& call) {
  const auto finish = [](const Rewind& rewind) -> Result<WireReply> {
    return MakeReply(
        wire::EditReply{.cells = rewind.removed_cells, .replayed = rewind.tokens.size()});
  };
  return SubmitReplay(call, call.args.sequence, call.args.range, call.applied(),
                      {.finish = finish, .undo = {}});
}

Result<Outcome> Service::ForkWithReplay(const Call<wire::ForkArgs>& call) {
  const std::uint32_t cell_count = call.args.cells.value_or(call.sequence.cell_count);
  const std::size_t count = call.args.count;
  SequenceOwner owner = OwnerFor(call.caller);
  owner.life = LifeOf(call, call.args.ttl_seconds);
  SequenceHandle fork = SequenceHandle::kNone;
  // This commit makes the fork; a later commit removes the last cells of the fork. Before the
  // commit that removes the last cells, the request does not count as applied, and a retry drops
  // the fork.
  KVD_CHECK_OK(
      memory_.sequences().Fork(call.args.sequence, owner, {&fork, 1}, std::nullopt, call.part()));
  NoteLife(owner.life);
  const auto undo = [&memory = memory_, fork] { (void)memory.sequences().Drop(fork); };
  const auto finish = [this, fork, owner, count, cell_count,
                       applied = call.applied()](const Rewind& rewind) -> Result<WireReply> {
    wire::ForkReply reply{.first = fork,
                          .cells = cell_count,
                          .replayed = rewind.tokens.size(),
                          .handles = std::vector<SequenceHandle>(count, fork)};
    if (count > 1) {
      RequestTag whole = applied;
      whole.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
      KVD_CHECK_OK(memory_.sequences().Fork(fork, owner, std::span(reply.handles).subspan(1),
                                            std::nullopt, whole));
    }
    return MakeReply(std::move(reply));
  };
  const Result<PosRange> range = RangeBehind(memory_, fork, cell_count);
  if (!range) {
    undo();
    return std::unexpected(range.error());
  }
  return SubmitReplay(call, fork, *range, count > 1 ? RequestTag{} : call.applied(),
                      {.finish = finish, .undo = undo});
}

Result<Outcome> Service::CopyWithReplay(const Call<wire::CopyRangeArgs>& call) {
  const SequenceHandle destination = call.args.destination;
  SequenceHandle fork = SequenceHandle::kNone;
  KVD_CHECK_OK(memory_.sequences().Fork(call.args.source, OwnerFor(call.caller), {&fork, 1},
                                        std::nullopt, call.part()));
  const auto undo = [&memory = memory_, fork] { (void)memory.sequences().Drop(fork); };
  const auto finish = [this, fork, destination,
                       applied = call.applied()](const Rewind& rewind) -> Result<WireReply> {
    KVD_CHECK_OK(scheduler_.CheckIdle(destination));
    RequestTag whole = applied;
    whole.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
    KVD_TRY(const std::uint32_t cells, memory_.sequences().CopyRange(fork, destination, {}, whole));
    (void)memory_.sequences().Drop(fork);
    return MakeReply(wire::EditReply{.cells = cells, .replayed = rewind.tokens.size()});
  };
  return SubmitReplay(call, fork, {call.args.range.end, kPosEnd}, {},
                      {.finish = finish, .undo = undo});
}

}  // namespace kvd
