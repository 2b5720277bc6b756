// Removals, forks and copies on models with recurrent state that need the state at a cell where no
// checkpoint is. A fork or copy is made of a sequence of its own, forked whole and then cut.
#include <cstring>
#include <string>
#include <utility>

#include "daemon/service.h"

namespace kvd {
namespace {

// From which position on a sequence has cells beyond the first cell_count.
Result<PosRange> RangeBehind(Memory& memory, SequenceHandle sequence, std::uint32_t cell_count) {
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_CHECK_OK(memory.holds().ReadCells(sequence, cell_count, 1, &tokens, &positions));
  if (positions.empty()) {
    return Fail(Code::kConflict, "cell_count: the source has become shorter meanwhile");
  }
  return PosRange{positions[0], kPosEnd};
}

}  // namespace

Result<Outcome> Service::SubmitReplay(const Request& request, SequenceHandle sequence,
                                      PosRange range, const RequestTag& applied,
                                      AfterReplay after) {
  RequestOrigin origin{.session = request.session,
                       .request = static_cast<RequestId>(request.submission.request),
                       .verb = static_cast<wire::Verb>(request.submission.verb),
                       .wants_progress = request.has(wire::kFlagProgress)};
  KVD_CHECK_OK(scheduler_.Submit(std::make_unique<ReplayRequest>(
      std::move(origin), engine_, sequence, range, applied, std::move(after))));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::RemoveWithReplay(const Request& request, SequenceHandle sequence,
                                          PosRange range) {
  const auto finish = [](const Rewind& rewind) -> Result<AfterReplay::Answer> {
    AfterReplay::Answer answer;
    answer.completion.value0 = rewind.removed_cells;
    answer.completion.value1 = static_cast<std::int64_t>(rewind.tokens.size());
    return answer;
  };
  return SubmitReplay(request, sequence, range, request.applied(), {.finish = finish, .undo = {}});
}

Result<Outcome> Service::ForkWithReplay(const Request& request, std::uint32_t cell_count,
                                        std::size_t count) {
  const SequenceOwner owner = OwnerFor(request.caller);
  SequenceHandle fork = SequenceHandle::kNone;
  // The fork is cut in a commit of its own: until that the request is not applied, and what it made
  // is dropped when it is sent again.
  RequestTag part = request.applied();
  part.completes = false;
  KVD_CHECK_OK(memory_.sequences().Fork(request.sequence(), owner, {&fork, 1}, std::nullopt, part));
  const auto undo = [&memory = memory_, fork] { (void)memory.sequences().Drop(fork); };
  const auto finish = [this, fork, owner, count, cell_count, applied = request.applied()](
                          const Rewind& rewind) -> Result<AfterReplay::Answer> {
    std::vector<SequenceHandle> handles(count, fork);
    if (count > 1) {
      RequestTag whole = applied;
      whole.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
      KVD_CHECK_OK(memory_.sequences().Fork(fork, owner, std::span(handles).subspan(1),
                                            std::nullopt, whole));
    }
    AfterReplay::Answer answer;
    answer.completion.sequence = static_cast<std::uint64_t>(fork);
    answer.completion.value1 = cell_count;
    answer.completion.value2 = static_cast<std::int64_t>(rewind.tokens.size());
    const auto bytes = std::as_bytes(std::span(handles));
    answer.output.assign(bytes.begin(), bytes.end());
    return answer;
  };
  const Result<PosRange> range = RangeBehind(memory_, fork, cell_count);
  if (!range) {
    undo();
    return std::unexpected(range.error());
  }
  return SubmitReplay(request, fork, *range, count > 1 ? RequestTag{} : request.applied(),
                      {.finish = finish, .undo = undo});
}

Result<Outcome> Service::CopyWithReplay(const Request& request, PosRange range) {
  const SequenceHandle destination = request.sequence2();
  SequenceHandle fork = SequenceHandle::kNone;
  RequestTag part = request.applied();
  part.completes = false;
  KVD_CHECK_OK(memory_.sequences().Fork(request.sequence(), OwnerFor(request.caller), {&fork, 1},
                                        std::nullopt, part));
  const auto undo = [&memory = memory_, fork] { (void)memory.sequences().Drop(fork); };
  const auto finish = [this, fork, destination, applied = request.applied()](
                          const Rewind& rewind) -> Result<AfterReplay::Answer> {
    KVD_CHECK_OK(scheduler_.CheckIdle(destination));
    RequestTag whole = applied;
    whole.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
    KVD_TRY(const std::uint32_t cells, memory_.sequences().CopyRange(fork, destination, {}, whole));
    (void)memory_.sequences().Drop(fork);
    AfterReplay::Answer answer;
    answer.completion.value0 = cells;
    answer.completion.value1 = static_cast<std::int64_t>(rewind.tokens.size());
    return answer;
  };
  return SubmitReplay(request, fork, {range.end, kPosEnd}, {}, {.finish = finish, .undo = undo});
}

}  // namespace kvd
