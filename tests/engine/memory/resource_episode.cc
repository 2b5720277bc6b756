#include "tests/engine/memory/resource_episode.h"

#include <algorithm>
#include <cstring>

#include "engine/memory/rebuild.h"
#include "tests/support/into.h"

namespace kvd::memory_model {
namespace {

constexpr std::uint64_t kFirstOwner = 1000;

Code CodeOf(const Status& status) { return status ? Code::kOk : status.error().code; }

struct NothingRotated : CellRotator {
  Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                    Pos) override {
    return {};
  }
};
struct NothingMoved : CellMover {
  void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                 std::uint32_t) override {}
};

}  // namespace

ResourceEpisode::ResourceEpisode(std::uint64_t seed, Kind kind, bool evicts, ResourceTally* tally)
    : random_(seed),
      tally_(tally),
      has_state_(kind == Kind::kRecurrent || kind == Kind::kHybrid || kind == Kind::kWindowHybrid),
      has_encoder_(kind == Kind::kEncoder) {
  MemoryOptions options = SmallOptions(Cells(4, 40));
  options.sequence_capacity = static_cast<std::uint32_t>(In(4, 24));
  options.session_capacity = kOwners;
  if (kind == Kind::kRecurrent) options.groups[0].layers.clear();
  if (kind == Kind::kWindow || kind == Kind::kWindowHybrid) {
    options.groups.push_back({.cells = Cells(3, 20),
                              .layers = {{1, 2, 2}},
                              .window = static_cast<std::uint32_t>(In(1, 80))});
  }
  if (has_encoder_) {
    options.groups.push_back({.cells = Cells(3, 12), .layers = {{1, 2, 2}}, .is_cross = true});
  }
  if (has_state_) {
    options.state_bytes = sizeof(float);
    options.state_slots = static_cast<std::uint32_t>(In(3, 24));
    options.checkpoint_slots = static_cast<std::uint32_t>(In(0, 12));
    options.logits_bytes = sizeof(float);
    options.logits_rows = static_cast<std::uint32_t>(In(1, 4));
  }
  options.list_unit_count = options.sequence_capacity * static_cast<std::uint32_t>(In(2, 9)) / 2;
  memory_ = MakeMemory(options);
  if (!evicts) memory_->DisableEvictionForTest();
  meta_ = *ValidateHeader(memory_->meta_bytes());
  const auto share = [this](std::uint64_t all) {
    return std::max<std::uint64_t>(1, all * static_cast<std::uint64_t>(In(30, 100)) / 100);
  };
  const layout::MetaGeometry& geometry = meta_.geometry();
  rules_.limits.sequences = share(geometry.sequence_capacity);
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    rules_.limits.blocks[group] = share(geometry.block_count[group]);
  }
  rules_.limits.state_slots = share(geometry.state_slot_count);
  rules_.limits.checkpoint_slots = share(options.checkpoint_slots);
  rules_.limits.list_units = share(geometry.list_unit_count);
  rules_.limits.logits_rows = share(geometry.logits_row_count);
  memory_->SetShareRules(&rules_);
}

// ---------------------------------------------------------------------------------------- drawing

SequenceOwner ResourceEpisode::AnyOwner() {
  const auto number = static_cast<std::uint32_t>(In(0, kOwners - 1));
  return {.id = OwnerId{kFirstOwner + number},
          .session = static_cast<SessionId>(1 + number),
          .namespace_salt = static_cast<std::uint64_t>(In(0, 1))};
}

SequenceHandle ResourceEpisode::Any() {
  const auto sequences = meta_.sequences();
  const auto capacity = static_cast<std::int64_t>(sequences.size());
  const std::int64_t first = In(0, capacity - 1);
  for (std::int64_t i = 0; i < capacity && !OneIn(50); ++i) {
    const auto index = static_cast<std::uint32_t>((first + i) % capacity);
    if ((sequences[index].flags & layout::kSequenceLive) != 0) {
      const bool is_published = (sequences[index].flags & layout::kSequencePublished) != 0;
      if (!is_published || OneIn(4)) return MakeHandle(index, sequences[index].generation);
    }
  }
  return MakeHandle(1, 99'999);
}

PosRange ResourceEpisode::AnyRange(SequenceHandle handle) {
  const Result<SequenceInfo> info = memory_->sequences().Query(handle);
  const std::int64_t last = info ? info->next_pos.value : 10;
  std::int64_t begin = OneIn(4) ? 0 : In(0, last), end = OneIn(3) ? INT32_MAX : In(0, last + 3);
  if (begin > end && !OneIn(10)) std::swap(begin, end);
  return {Pos{static_cast<std::int32_t>(begin)}, Pos{static_cast<std::int32_t>(end)}};
}

std::vector<TokenId> ResourceEpisode::AnyTokens(std::int64_t most) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(In(1, most)));
  // There are only four different first tokens, so that many prompts share prefixes.
  const std::int64_t first = In(0, 3);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(first + static_cast<std::int64_t>(i % 7));
  }
  if (OneIn(3)) tokens.back() = static_cast<TokenId>(In(0, 200));
  return tokens;
}

// --------------------------------------------------------------------------------------- checking

std::vector<std::byte> ResourceEpisode::Committed() const {
  const std::span<const std::byte> bytes = memory_->meta_bytes();
  const MetaOffsets& at = meta_.offsets();
  std::vector<std::byte> committed(bytes.begin(),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(at.commit));
  const auto add = [&](std::span<const std::byte> more) {
    committed.insert(committed.end(), more.begin(), more.end());
  };
  add(bytes.subspan(at.sequences, at.lists - at.sequences));
  for (const layout::SequenceRecord& record : meta_.sequences()) {
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    add(std::as_bytes(meta_.checkpoints(record.checkpoints)));
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      const auto extents = meta_.entries(record.extents[group]);
      add(std::as_bytes(extents));
      for (const layout::Extent& extent : extents) {
        add(std::as_bytes(std::span(meta_.cells(group, extent.block), layout::kBlockCells)));
      }
    }
  }
  return committed;
}

template <class Call>
auto ResourceEpisode::Do(const char* verb, const Call& call) {
  before_ = Committed();
  auto result = call();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    Judge(verb, CodeOf(result), result ? "" : result.error().message);
  } else {
    Judge(verb, result ? Code::kOk : result.error().code, result ? "" : result.error().message);
  }
  return result;
}

void ResourceEpisode::Judge(const char* verb, Code code, const std::string& message) {
  ++tally_->operations;
  ++tally_->codes[std::string(verb) + " " + std::string(CodeName(code))];
  if (code != Code::kOk && Committed() != before_) {
    ADD_FAILURE() << verb << " returned an error but has changed meta: " << message;
  }
  for (std::uint32_t owner = 0; owner < kOwners; ++owner) {
    const OwnerId id{kFirstOwner + owner};
    const OwnerUse held = HeldBy(meta_, id);
    EXPECT_EQ(Excess(held, rules_.limits), "") << "owner " << owner << " after " << verb;
    EXPECT_TRUE(memory_->sequences().UseOf(id) == held) << "owner " << owner << " after " << verb;
  }
  if (tally_->operations % 64 != 0 || is_stepping_) return;
  const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  EXPECT_TRUE(*rebuilt == memory_->derived()) << "after " << verb;
}

// ------------------------------------------------------------------------------------------ verbs

void ResourceEpisode::Operate() {
  const auto choice = In(0, 99);
  if (choice < 35) return Step();
  if (choice < 40 && has_state_) return Rewind();
  if (choice < 46) return Rewrite();
  if (choice < 54) return Restore();
  Verb();
}

void ResourceEpisode::Meanwhile() {
  if (depth_ > 0) return;
  ++depth_;
  for (std::int64_t count = In(0, 2); count > 0; --count) Verb();
  --depth_;
}

void ResourceEpisode::Verb() {
  const SequenceHandle handle = Any();
  switch (In(0, 19)) {
    case 0:
    case 1: (void)Do("create", [&] { return memory_->sequences().Create(AnyOwner()); }); return;
    case 2:
    case 3:
    case 4: {
      const Result<SequenceInfo> info = memory_->sequences().Query(handle);
      std::vector<SequenceHandle> forks(static_cast<std::size_t>(In(OneIn(20) ? 0 : 1, 4)));
      std::optional<std::uint32_t> cells;
      if (OneIn(2)) cells = static_cast<std::uint32_t>(In(0, info ? info->cell_count + 1 : 1));
      (void)Do("fork", [&] { return memory_->sequences().Fork(handle, AnyOwner(), forks, cells); });
      return;
    }
    case 5: (void)Do("drop", [&] { return memory_->sequences().Drop(handle); }); return;
    case 6: {
      const std::vector<SequenceHandle> handles = {handle, Any()};
      (void)Do("drop all", [&] { return memory_->sequences().DropAll(handles); });
      return;
    }
    case 7: {
      if (!OneIn(8)) return OwnerVerb(handle);
      (void)Do("keep", [&] { return memory_->sequences().Keep(handle, AnyOwner().session); });
      return;
    }
    case 8:
    case 9: (void)Do("retain", [&] { return memory_->prefixes().Retain(handle); }); return;
    case 10:
    case 11:
      (void)Do("publish", [&] {
        return memory_->snapshots().Publish(handle, AnyOwner(), AnyName(), OneIn(2), OneIn(2));
      });
      return;
    case 12:
      (void)Do("unpublish",
               [&] { return memory_->snapshots().Unpublish(AnyName(), AnyOwner().id); });
      return;
    case 13:
    case 14: {
      const std::vector<TokenId> tokens = AnyTokens(150);
      (void)Do("take prefix",
               [&] { return memory_->prefixes().Take({.destination = handle, .tokens = tokens}); });
      return;
    }
    case 15:
      if (is_stepping_) return;
      (void)Do("keep checkpoint", [&] { return memory_->states().KeepCheckpoint(handle); });
      return;
    case 16: {
      const Result<SequenceInfo> info = memory_->sequences().Query(handle);
      if (is_stepping_ || !info || info->cell_count == 0) return;
      const float row = 0;
      (void)Do("keep logits", [&] { return memory_->states().KeepLogits(handle, &row); });
      return;
    }
    default: EditVerb(handle);
  }
}

void ResourceEpisode::EditVerb(SequenceHandle handle) {
  const PosRange range = AnyRange(handle);
  switch (In(0, 4)) {
    case 0:
    case 1:
      (void)Do("remove", [&] { return memory_->sequences().RemoveRange(handle, range); });
      return;
    case 2:
      (void)Do("add", [&] {
        return memory_->sequences().AddPositions(handle, range,
                                                 static_cast<std::int32_t>(In(-20, 20)));
      });
      return;
    case 3: {
      const SequenceHandle to = Any();
      (void)Do("copy", [&] { return memory_->sequences().CopyRange(handle, to, range); });
      return;
    }
    default:
      if (OneIn(6)) (void)Do("clear", [&] { return memory_->sequences().Clear(handle); });
  }
}

void ResourceEpisode::OwnerVerb(SequenceHandle handle) {
  constexpr std::uint32_t kFlags[] = {0, layout::kSequenceRetained, layout::kSequencePinned};
  (void)Do("set owner", [&] {
    return memory_->sequences().SetOwner(handle, AnyOwner(), kFlags[In(0, 2)], kFlags[In(0, 2)]);
  });
}

void ResourceEpisode::Step() {
  if (is_stepping_) return;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<AppendRequest> requests;
  for (std::int64_t count = In(1, 3); count > 0; --count) {
    const SequenceHandle handle = Any();
    const Result<SequenceInfo> info = memory_->sequences().Query(handle);
    tokens.push_back(AnyTokens(OneIn(4) ? 200 : 40));
    const std::int32_t pos = info ? info->next_pos.value + static_cast<std::int32_t>(OneIn(20)) : 0;
    requests.push_back({handle, Pos{pos}, {}});
  }
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].tokens = tokens[i];
  StepPlan plan;
  if (!Do("reserve", [&] { return memory_->steps().Reserve(requests, plan); })) return;
  is_stepping_ = true;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Meanwhile();
    if (OneIn(8)) {
      memory_->steps().Abandon(plan, i);
    } else {
      (void)Do("commit", [&] { return memory_->steps().Commit(plan, i); });
    }
  }
  memory_->steps().EndStep(plan);
  is_stepping_ = false;
}

void ResourceEpisode::Rewind() {
  if (is_stepping_) return;
  const SequenceHandle handle = Any();
  kvd::Rewind rewind;
  if (!Do("begin rewind",
          [&] { return Into(memory_->states().BeginRewind(handle, AnyRange(handle)), &rewind); })) {
    return;
  }
  Meanwhile();
  if (OneIn(4)) return rewind.reservation.End();
  rewind.done = rewind.tokens.size();
  rewind.last_slot = rewind.done == 0 ? rewind.state_from : rewind.slots[0];
  (void)Do("commit rewind", [&] { return memory_->states().CommitRewind(rewind); });
}

void ResourceEpisode::Rewrite() {
  if (is_stepping_) return;
  if (OneIn(3)) {
    NothingMoved mover;
    (void)Do("defragment", [&] {
      return memory_->block_packer().Advance(static_cast<std::uint32_t>(In(1, 200)), mover);
    });
    return;
  }
  NothingRotated rotator;
  const SequenceHandle handle = Any();
  CellRewrite rewrite;
  RewriteRequest request{.handle = handle, .range = AnyRange(handle)};
  request.kind = OneIn(2) ? RewriteRequest::Kind::kDivide : RewriteRequest::Kind::kSettle;
  request.divisor = static_cast<std::int32_t>(In(OneIn(10) ? 0 : 1, 3));
  if (!Do("begin rewrite", [&] { return Into(memory_->rewrites().Begin(request), &rewrite); }))
    return;
  while (rewrite.is_open()) {
    Meanwhile();
    if (OneIn(6)) return rewrite.reservation.End();
    const auto over = Do("rewrite slice", [&] {
      return memory_->rewrites().Advance(rewrite, static_cast<std::uint32_t>(In(1, 60)), rotator);
    });
    if (!over) return;
  }
}

void ResourceEpisode::Restore() {
  const SequenceHandle handle = Any();
  const std::vector<TokenId> tokens = AnyTokens(120);
  std::vector<TokenId> text;
  if (has_encoder_ || OneIn(20)) text = AnyTokens(60);
  std::vector<Pos> positions;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    positions.push_back(Pos{static_cast<std::int32_t>(i)});
  }
  const auto last = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t checkpoints[] = {std::max(1u, last / 2), last};
  RestoreRequest request{.handle = handle, .tokens = tokens, .positions = positions};
  request.cross_tokens = text;
  request.pristine_cells = last;
  request.has_state = has_state_ != OneIn(30);
  request.has_logits = has_state_ && OneIn(2);
  if (request.has_state && last > 1) request.checkpoint_cells = checkpoints;
  kvd::Restore restore;
  if (!Do("begin restore", [&] { return Into(memory_->restores().Begin(request), &restore); }))
    return;
  Meanwhile();
  if (OneIn(5)) return restore.reservation.End();
  (void)Do("commit restore", [&] { return memory_->restores().Commit(restore); });
}

}  // namespace kvd::memory_model
