#include "tests/crash/operations.h"
#include "tests/engine/memory/rewrite_all.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "engine/memory/cell_rewrites.h"
#include "engine/memory/holds_and_restores.h"
#include "tests/crash/recovered_state.h"
#include "tests/support/into.h"

namespace kvd::test {
namespace {

constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{5}, 0};
constexpr SequenceOwner kOther{OwnerId{1001}, SessionId{6}, 3};

class TagRotator final : public CellRotator {
 public:
  explicit TagRotator(Memory& memory) : memory_(memory) {}
  Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell, Pos,
                    BlockId destination_block, std::uint32_t destination_cell, Pos to) override {
    const auto from = static_cast<std::uint32_t>(source_block);
    const auto block = static_cast<std::uint32_t>(destination_block);
    const auto token =
        static_cast<TokenId>(*CellBytes(memory_, group, from, source_cell, true) >> 32);
    *CellBytes(memory_, group, block, destination_cell, true) = CellTag(token, to.value);
    *CellBytes(memory_, group, block, destination_cell, false) = CellTag(token, 0);
    return {};
  }

 private:
  Memory& memory_;
};

class TagMover final : public CellMover {
 public:
  explicit TagMover(Memory& memory) : memory_(memory) {}
  void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                 BlockId destination_block, std::uint32_t destination_cell,
                 std::uint32_t count) override {
    for (const bool is_key : {true, false}) {
      std::memcpy(
          CellBytes(memory_, group, static_cast<std::uint32_t>(destination_block), destination_cell,
                    is_key),
          CellBytes(memory_, group, static_cast<std::uint32_t>(source_block), source_cell, is_key),
          count * sizeof(std::uint64_t));
    }
  }

 private:
  Memory& memory_;
};

}  // namespace

const char* NameOf(OperationKind kind) {
  static constexpr std::array<const char*, kOperationKinds> kNames = {
      "create",       "fork",          "drop",       "drop all",    "keep",      "remove",
      "clear",        "copy",          "shift",      "divide",      "settle",    "re-form",
      "defragment",   "set owner",     "publish",    "replace",     "unpublish", "reserve",
      "commit",       "encode",        "checkpoint", "keep logits", "rewind",    "restore",
      "open session", "close session", "remember",   "take prefix", "retain",    "evict"};
  return kNames[static_cast<std::size_t>(kind)];
}

MemoryOptions OptionsOf(MemoryKind kind) {
  MemoryOptions options;
  options.groups = {{.cells = 32 * 32, .layers = {{1, 2, 2}}}};
  options.k_type = kernels::DataType::kF32;
  options.v_type = kernels::DataType::kF32;
  options.sequence_capacity = 12;
  options.snapshot_capacity = 3;
  options.session_capacity = 2;
  options.list_unit_count = 96;
  if (kind == MemoryKind::kHybrid) {
    options.groups.push_back({.cells = 16 * 32, .layers = {{1, 2, 2}}, .window = 70});
    options.state_bytes = 64;
    options.state_slots = 20;
    options.checkpoint_slots = 12;
    options.logits_bytes = 64;
    options.logits_rows = 3;
  }
  if (kind == MemoryKind::kEncoder) {
    options.groups.push_back({.cells = 8 * 32, .layers = {{1, 2, 2}}, .is_cross = true});
  }
  return options;
}

bool Has(MemoryKind memory, OperationKind kind) {
  switch (kind) {
    case OperationKind::kEncode: return memory == MemoryKind::kEncoder;
    case OperationKind::kCheckpoint:
    case OperationKind::kLogits:
    case OperationKind::kRewind: return memory == MemoryKind::kHybrid;
    case OperationKind::kTakePrefix: return memory != MemoryKind::kEncoder;
    default: return true;
  }
}

Operations::Operations(Memory& memory, MemoryKind kind, std::uint64_t seed, StepWindow& window)
    : memory_(memory), kind_(kind), random_(seed), window_(window) {
  Must(memory_.sessions().Open({.id = kOwner.session, .owner = kOwner.id}));
  base_ = Make(70);
  std::vector<Pos> positions;
  Must(memory_.holds().ReadCells(base_, 0, 70, &base_tokens_, &positions));
  (void)Must(memory_.snapshots().Publish(base_, kOwner, "base", true, false));
}

// Runs `change` as the operation between two stores to is_open. SIGTRAP stops the process, so that
// the tracer starts single-stepping.
template <class Change>
void Operations::Step(OperationKind kind, Change change, bool changes_something) {
  window_.kind = kind;
  window_.changes_something = changes_something;
  window_.is_open.store(1);
  ::raise(SIGTRAP);
  auto result = change();
  window_.is_open.store(0);
  if (!result) Must(std::unexpected(std::move(result).error()));
}

void Operations::Must(const Status& status) {
  if (status) return;
  std::snprintf(window_.failure.data(), window_.failure.size(), "%s: %s", NameOf(window_.kind),
                status.error().message.c_str());
  ::_exit(3);
}

template <class T>
T Operations::Must(Result<T> result) {
  if (!result) Must(Status(std::unexpected(std::move(result).error())));
  return std::move(*result);
}

std::uint32_t Operations::In(std::uint32_t least, std::uint32_t most) {
  return least + static_cast<std::uint32_t>(random_() % (most - least + 1));
}

RequestTag Operations::Applied() {
  if (In(0, 1) == 0) return {};
  return {.session = kOwner.session, .request = RequestId{++last_request_}, .kind = 1};
}

layout::SamplerRecord Operations::Sampler() {
  layout::SamplerRecord sampler{};
  if (In(0, 1) == 0) return sampler;
  sampler.flags = layout::kSamplerKept;
  sampler.draw_count = In(1, 1000);
  return sampler;
}

std::vector<TokenId> Operations::Tokens(std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = last_token_ = (last_token_ + 1) % 10'000;
  return tokens;
}

void Operations::Fill(const StepSequence& part) {
  for (std::uint32_t group = 0; group < memory_.geometry().meta.group_count; ++group) {
    const GroupPart& groups = part.groups[group];
    const ExtentView view = groups.view();
    const std::uint32_t first_new = groups.cell_count - part.new_cells;
    for (std::size_t at = groups.first_new_extent; at < view.entries.size(); ++at) {
      const BlockRange range = view.RangeAt(at);
      for (std::uint32_t k = 0; k < range.count; ++k) {
        const std::uint32_t ordinal = view.entries[at].start + k;
        if (ordinal < first_new) continue;
        const TokenId token = part.tokens[ordinal - first_new];
        const auto position =
            static_cast<std::int32_t>(ordinal - first_new) + part.first_new_pos.value;
        *CellBytes(memory_, group, range.block, range.first + k, true) =
            CellTag(token, position - range.delta);
        *CellBytes(memory_, group, range.block, range.first + k, false) = CellTag(token, 0);
      }
    }
  }
  if (part.state_to == layout::kNoSlot) return;
  std::uint64_t sum = kSumOfNothing;
  if (part.state_from != layout::kNoSlot) {
    std::memcpy(&sum, memory_.StateBytes(part.state_from), sizeof sum);
  }
  for (const TokenId token : part.tokens) sum = AddToSum(sum, token);
  std::memcpy(memory_.StateBytes(part.state_to), &sum, sizeof sum);
}

void Operations::Append(SequenceHandle handle, std::size_t count, std::uint32_t key_form) {
  const std::vector<TokenId> tokens = Tokens(count);
  const AppendRequest request{.handle = handle,
                              .pos = Must(memory_.sequences().Query(handle)).next_pos,
                              .tokens = tokens,
                              .key_form = key_form};
  StepPlan plan;
  Must(memory_.steps().Reserve({&request, 1}, plan));
  Fill(plan.sequences[0]);
  Must(memory_.steps().Commit(plan, 0));
  memory_.steps().EndStep(plan);
}

void Operations::Encode(SequenceHandle handle) {
  const std::vector<TokenId> tokens = Tokens(In(5, 40));
  // Follows the order of the engine: reserve the cells, grow the pool for their blocks, write the
  // cells, commit.
  const auto encode = [&]() -> Status {
    Restore restore;
    KVD_CHECK_OK(Into(
        memory_.restores().Begin({.handle = handle, .cross_tokens = tokens, .grows_later = true}),
        &restore));
    const std::uint32_t group = memory_.geometry().meta.cross_group;
    for (const layout::Extent& extent : restore.parts[group].extents)
      KVD_CHECK_OK(memory_.GrowBlock(group, static_cast<BlockId>(extent.block)));
    FillRestored(restore, {}, tokens);
    return memory_.restores().Commit(restore);
  };
  if (window_.kind == OperationKind::kEncode) {
    Step(OperationKind::kEncode, encode);
  } else {
    Must(encode());
  }
}

void Operations::FillRestored(const Restore& restore, std::span<const TokenId> tokens,
                              std::span<const TokenId> cross) {
  for (std::uint32_t group = 0; group < memory_.geometry().meta.group_count; ++group) {
    const ExtentView view = restore.parts[group].view();
    const bool is_cross = group == memory_.geometry().meta.cross_group;
    for (std::size_t at = 0; at < view.entries.size(); ++at) {
      const BlockRange range = view.RangeAt(at);
      for (std::uint32_t k = 0; k < range.count; ++k) {
        const std::uint32_t ordinal = view.entries[at].start + k;
        const TokenId token = is_cross ? cross[ordinal] : tokens[ordinal];
        *CellBytes(memory_, group, range.block, range.first + k, true) =
            CellTag(token, static_cast<std::int32_t>(ordinal));
        *CellBytes(memory_, group, range.block, range.first + k, false) = CellTag(token, 0);
      }
    }
  }
}

SequenceHandle Operations::Make(std::size_t cells, std::uint32_t key_form) {
  const SequenceHandle handle = Must(memory_.sequences().Create(kOwner));
  if (kind_ == MemoryKind::kEncoder) Encode(handle);
  if (cells != 0) Append(handle, cells, key_form);
  return handle;
}

SequenceHandle Operations::ForkOf(SequenceHandle source, SequenceOwner owner) {
  SequenceHandle fork{};
  Must(memory_.sequences().Fork(source, owner, {&fork, 1}));
  return fork;
}

void Operations::FillHistory(SequenceHandle handle) {
  for (std::uint32_t number = 0; number < layout::kEditsKept; ++number) {
    Must(memory_.sequences().AddPositions(handle, {}, number % 2 == 0 ? 1 : -1));
  }
}

void Operations::Forget(std::span<const SequenceHandle> handles) {
  Must(memory_.sequences().DropAll(handles));
}

void Operations::Run(OperationKind kind) {
  using enum OperationKind;
  window_.kind = kind;
  switch (kind) {
    case kCreate: {
      SequenceHandle made{};
      Step(kind, [&, applied = Applied()]() -> Status {
        KVD_TRY(made, memory_.sequences().Create(kOwner, applied));
        return {};
      });
      return Forget(made);
    }
    case kFork: {
      std::vector<SequenceHandle> forks(In(1, 3));
      std::optional<std::uint32_t> cells;
      if (kind_ == MemoryKind::kAttention && In(0, 1) == 0) cells = In(1, 70);
      Step(kind, [&, applied = Applied()] {
        return memory_.sequences().Fork(base_, kOwner, forks, cells, applied);
      });
      return Forget(forks);
    }
    case kDrop: {
      const SequenceHandle fork = ForkOf(base_, kOwner);
      if (In(0, 1) == 0) Append(fork, In(1, 40));
      return Step(kind,
                  [&, applied = Applied()] { return memory_.sequences().Drop(fork, applied); });
    }
    case kDropAll: {
      const std::array forks = {ForkOf(base_, kOwner), ForkOf(base_, kOther), Make(5)};
      return Step(kind,
                  [&, applied = Applied()] { return memory_.sequences().DropAll(forks, applied); });
    }
    case kKeep: {
      const SequenceHandle kept = ForkOf(base_, kOther);
      for (int i = 0; i < 2; ++i) (void)ForkOf(base_, kOther);
      Step(kind, [&, applied = Applied()] {
        return memory_.sequences().Keep(kept, kOther.session, applied);
      });
      return Forget(kept);
    }
    case kRemove: return RunRemove();
    case kClear: {
      const SequenceHandle fork = ForkOf(base_, kOwner);
      Step(kind, [&, applied = Applied()] { return memory_.sequences().Clear(fork, applied); });
      return Forget(fork);
    }
    case kCopy: return RunCopy();
    case kShift: {
      const SequenceHandle fork = ForkOf(base_, kOwner);
      FillHistory(fork);
      const PosRange range{Pos{static_cast<std::int32_t>(In(0, 2) * In(1, 32))}, kPosEnd};
      const auto delta = static_cast<std::int32_t>(In(1, 9));
      Step(kind, [&, applied = Applied()] {
        return memory_.sequences().AddPositions(fork, range, delta, applied);
      });
      return Forget(fork);
    }
    case kDivide:
    case kSettle:
    case kChangeForm: return RunDivide();
    case kDefragment: return RunDefragment();
    case kSetOwner: {
      const SequenceHandle fork = ForkOf(base_, kOwner);
      Step(kind, [&, applied = Applied()] {
        return memory_.sequences().SetOwner(fork, kOther, layout::kSequenceRetained, 0, applied);
      });
      const layout::SamplerRecord sampler = Sampler();
      Step(kind, [&] { return memory_.sequences().SetSampler(fork, sampler); }, sampler.flags != 0);
      return Forget(fork);
    }
    case kPublish:
    case kReplace:
    case kUnpublish: {
      const auto publish = [&] {
        return memory_.snapshots().Publish(base_, kOwner, "name", In(0, 1) == 0, true);
      };
      if (kind == kPublish) {
        Step(kind, publish);
      } else {
        (void)Must(publish());
        if (kind == kReplace) Step(kind, publish);
        if (kind == kUnpublish)
          return Step(kind, [&] { return memory_.snapshots().Unpublish("name", kOwner.id); });
      }
      return Must(memory_.snapshots().Unpublish("name", kOwner.id));
    }
    case kReserve:
    case kCommit: return RunAppend();
    case kEncode: return Forget(Make(0));
    case kCheckpoint: {
      const SequenceHandle made = Make(In(3, 20));
      Step(kind, [&] { return memory_.states().KeepCheckpoint(made); });
      return Forget(made);
    }
    case kLogits: {
      const SequenceHandle made = Make(3);
      std::array<float, 16> row{};
      std::uint64_t sum = kSumOfNothing;
      for (TokenId token = last_token_ - 2; token <= last_token_; ++token) {
        sum = AddToSum(sum, (token + 10'000) % 10'000);
      }
      std::memcpy(row.data(), &sum, sizeof sum);
      Step(kind, [&] { return memory_.states().KeepLogits(made, row.data()); });
      return Forget(made);
    }
    case kTakePrefix: return RunTakePrefix();
    case kRetain:
    case kEvict: return RunRetained();
    case kRewind: return RunRewind();
    case kRestore: return RunRestore();
    case kRemember: {
      const RequestTag applied = Applied();
      for (const auto stage : {Sessions::Stage::kBegun, Sessions::Stage::kEnded}) {
        Step(
            kind, [&] { return memory_.sessions().Remember(applied, stage, 7); },
            applied.is_somebodys());
      }
      return;
    }
    case kOpenSession:
    case kCloseSession: {
      const SessionEntry session{.id = kOther.session, .owner = kOther.id};
      const auto open = [&] { return memory_.sessions().Open(session); };
      const auto close = [&] { return memory_.sessions().Close(session.id); };
      if (kind == kOpenSession) {
        Step(kind, open);
        SessionNote note{};
        note.front() = note.back() = static_cast<std::byte>(In(1, 9));
        Step(kind, [&] { return memory_.sessions().SetNote(session.id, note); });
        return Must(close());
      }
      Must(open());
      return Step(kind, close);
    }
  }
}

void Operations::RunRemove() {
  SequenceHandle made = ForkOf(base_, kOwner);
  PosRange range{Pos{static_cast<std::int32_t>(In(0, 60))}, kPosEnd};
  if (kind_ == MemoryKind::kHybrid) {
    // Removes the cells after a checkpoint, so that no replay is needed.
    Forget(made);
    made = Make(In(5, 30));
    (void)Must(memory_.states().KeepCheckpoint(made));
    range.begin = Must(memory_.sequences().Query(made)).next_pos;
    Append(made, In(1, 20));
  } else if (In(0, 1) == 0) {
    range.end = Pos{range.begin.value + static_cast<std::int32_t>(In(1, 9))};
  }
  Step(OperationKind::kRemove,
       [&, applied = Applied()] { return memory_.sequences().RemoveRange(made, range, applied); });
  Forget(made);
}

void Operations::RunCopy() {
  const SequenceHandle made = Must(memory_.sequences().Create(kOwner));
  PosRange range{Pos{0}, kPosEnd};
  if (kind_ != MemoryKind::kHybrid) {
    range.begin = Pos{static_cast<std::int32_t>(In(0, 40))};
    range.end = Pos{range.begin.value + static_cast<std::int32_t>(In(1, 40))};
  }
  Step(OperationKind::kCopy, [&, applied = Applied()] {
    return memory_.sequences().CopyRange(base_, made, range, applied);
  });
  Forget(made);
}

// Divides positions in slices of 7 cells, so that the tracer also recovers between slices.
Result<std::uint32_t> Operations::DivideInSlices(SequenceHandle sequence, CellRotator& rotator,
                                                 const RequestTag& applied) {
  CellRewrite rewrite;
  KVD_CHECK_OK(Into(memory_.rewrites().Begin({.handle = sequence,
                                              .kind = RewriteRequest::Kind::kDivide,
                                              .range = {Pos{0}, kPosEnd},
                                              .divisor = 2,
                                              .applied = applied}),
                    &rewrite));
  while (rewrite.is_open()) KVD_CHECK_OK(memory_.rewrites().Advance(rewrite, 7, rotator));
  return rewrite.cell_count();
}

// Runs the operations that rewrite cells to newly allocated ones.
void Operations::RunDivide() {
  TagRotator rotator(memory_);
  const SequenceHandle made = Make(In(4, 24));
  switch (window_.kind) {
    case OperationKind::kDivide:
      Step(OperationKind::kDivide,
           [&, applied = Applied()] { return DivideInSlices(made, rotator, applied); });
      break;
    case OperationKind::kSettle:
      Must(memory_.sequences().AddPositions(made, {Pos{2}, kPosEnd}, 3));
      Step(
          OperationKind::kSettle,
          [&] { return SettleCells(memory_, made, SettleScope::kAll, rotator); },
          /*changes_something=*/false);
      break;
    default:
      Step(OperationKind::kChangeForm, [&] { return ChangeKeyForm(memory_, made, 1, rotator); });
  }
  Forget(made);
}

void Operations::RunDefragment() {
  TagMover mover(memory_);
  std::vector<SequenceHandle> made;
  for (int i = 0; i < 4; ++i) made.push_back(Make(40));
  for (const std::size_t gone : {2u, 0u}) {
    Forget(made[gone]);
    made.erase(made.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  Step(
      OperationKind::kDefragment, [&] { return memory_.block_packer().Advance(64, mover); },
      /*changes_something=*/false);
  Forget(made);
}

void Operations::RunAppend() {
  const bool steps_reserve = window_.kind == OperationKind::kReserve;
  const std::array made = {ForkOf(base_, kOwner), Make(kind_ == MemoryKind::kEncoder ? 1 : 0)};
  const std::array tokens = {Tokens(In(1, 12)), Tokens(In(1, 40))};
  std::array<AppendRequest, 2> requests;
  for (std::size_t i = 0; i < made.size(); ++i) {
    requests[i] = {.handle = made[i],
                   .pos = Must(memory_.sequences().Query(made[i])).next_pos,
                   .tokens = tokens[i],
                   .applied = Applied(),
                   .sampler = Sampler()};
    requests[i].applied.completes = In(0, 1) == 0;
  }
  StepPlan plan;
  const auto reserve = [&]() -> Status {
    KVD_CHECK_OK(memory_.steps().Reserve(requests, plan));
    for (std::size_t i = 0; i < plan.count; ++i) Fill(plan.sequences[i]);
    return {};
  };
  if (steps_reserve) {
    Step(OperationKind::kReserve, reserve, /*changes_something=*/false);
  } else {
    Must(reserve());
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    // The second part is abandoned in one of four runs.
    if (i == 1 && In(0, 3) == 0) {
      memory_.steps().Abandon(plan, i);
    } else if (steps_reserve) {
      Must(memory_.steps().Commit(plan, i));
    } else {
      Step(OperationKind::kCommit, [&] { return memory_.steps().Commit(plan, i); });
    }
  }
  memory_.steps().EndStep(plan);
  Forget(made);
}

void Operations::RunTakePrefix() {
  const SequenceHandle made = Must(memory_.sequences().Create(kOwner));
  std::vector<TokenId> tokens = base_tokens_;
  // The prompt is all of base_ and one more token. Without recurrent states, the prompt is a random
  // part of base_ and one more token.
  tokens.resize(kind_ == MemoryKind::kHybrid ? tokens.size() : In(20, 70));
  tokens.push_back(9'999);
  Step(OperationKind::kTakePrefix, [&, applied = Applied()] {
    return memory_.prefixes().Take({.destination = made, .tokens = tokens, .applied = applied});
  });
  Forget(made);
}

void Operations::RunRetained() {
  const SequenceHandle made = Make(In(24, 40));
  // Half of the runs of kAttention remove a range, so that Retain also has to cut off the cells
  // after it.
  if (kind_ == MemoryKind::kAttention && In(0, 1) == 0) {
    (void)Must(memory_.sequences().RemoveRange(made, {Pos{20}, Pos{22}}));
  }
  const auto retain = [&, applied = Applied()] { return memory_.prefixes().Retain(made, applied); };
  if (window_.kind == OperationKind::kRetain) {
    Step(OperationKind::kRetain, retain);
    return (void)memory_.sequences().Drop(made);
  }
  if (!Must(retain())) return;
  Step(OperationKind::kEvict, [&]() -> Status {
    (void)memory_.prefixes().LimitRetained(0);
    return {};
  });
}

void Operations::RunRewind() {
  const SequenceHandle made = Make(In(5, 20));
  (void)Must(memory_.states().KeepCheckpoint(made));
  Append(made, In(5, 20));
  const auto length =
      static_cast<std::uint32_t>(Must(memory_.sequences().Query(made)).next_pos.value);
  Rewind rewind;
  rewind.applied = Applied();
  const Pos begin{static_cast<std::int32_t>(In(2, length - 2))};
  const PosRange range{begin, In(0, 1) == 0 ? kPosEnd : Pos{begin.value + 1}};
  Must(Into(memory_.states().BeginRewind(made, range), &rewind));
  std::uint64_t sum = kSumOfNothing;
  if (rewind.state_from != layout::kNoSlot) {
    std::memcpy(&sum, memory_.StateBytes(rewind.state_from), sizeof sum);
  }
  for (const TokenId token : rewind.tokens) sum = AddToSum(sum, token);
  rewind.done = rewind.tokens.size();
  rewind.last_slot = rewind.slots[0];
  std::memcpy(memory_.StateBytes(rewind.last_slot), &sum, sizeof sum);
  Step(OperationKind::kRewind, [&] { return memory_.states().CommitRewind(rewind); });
  Forget(made);
}

void Operations::RunRestore() {
  const SequenceHandle made = Must(memory_.sequences().Create(kOwner));
  const bool is_hybrid = kind_ == MemoryKind::kHybrid;
  const std::vector<TokenId> tokens = Tokens(In(1, 50));
  const std::vector<TokenId> cross =
      kind_ == MemoryKind::kEncoder ? Tokens(7) : std::vector<TokenId>();
  std::vector<Pos> positions;
  std::vector<std::uint64_t> sums = {kSumOfNothing};
  for (const TokenId token : tokens) {
    positions.push_back(Pos{static_cast<std::int32_t>(positions.size())});
    sums.push_back(AddToSum(sums.back(), token));
  }
  const std::array checkpoints = {static_cast<std::uint32_t>(tokens.size())};
  RestoreRequest request{.handle = made,
                         .tokens = tokens,
                         .positions = positions,
                         .cross_tokens = cross,
                         .pristine_cells = static_cast<std::uint32_t>(tokens.size()),
                         .has_state = is_hybrid,
                         .has_logits = is_hybrid};
  if (is_hybrid) request.checkpoint_cells = checkpoints;
  Step(OperationKind::kRestore, [&]() -> Status {
    Restore restore;
    KVD_CHECK_OK(Into(memory_.restores().Begin(request), &restore));
    FillRestored(restore, tokens, cross);
    if (restore.state_slot != layout::kNoSlot) {
      std::memcpy(memory_.StateBytes(restore.state_slot), &sums.back(), sizeof sums[0]);
    }
    if (restore.logits_slot != layout::kNoSlot) {
      std::memcpy(memory_.LogitsBytes(restore.logits_slot), &sums.back(), sizeof sums[0]);
    }
    return memory_.restores().Commit(restore);
  });
  Forget(made);
}

}  // namespace kvd::test
