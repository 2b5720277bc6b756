// Creates an episode's memory and draws the random arguments of operations.
#include "tests/engine/memory/attention_episode.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvd::memory_model {

AttentionEpisode::AttentionEpisode(std::uint64_t seed, Tally* tally)
    : random_(seed), tally_(tally) {
  MemoryOptions options;
  const bool is_tiny = random_.OneIn(4);
  options.groups.resize(1);
  options.groups[0].cells =
      static_cast<std::uint64_t>(is_tiny ? random_.In(2, 10) : random_.In(20, 80)) *
      layout::kBlockCells;
  options.groups[0].layers = {{1, 2, 2}};
  options.k_type = kernels::DataType::kF32;
  options.v_type = kernels::DataType::kF32;
  options.sequence_capacity = static_cast<std::uint32_t>(random_.In(4, 14));
  options.snapshot_capacity = std::max(1u, options.sequence_capacity / 4);
  options.session_capacity = 0;
  // The list arena has one to four list units for each sequence, so that requests also fail for
  // lack of list units.
  options.list_unit_count =
      options.sequence_capacity * static_cast<std::uint32_t>(random_.In(2, 8)) / 2;
  memory_ = MakeMemory(options);
  memory_->DisableEvictionForTest();  // the reference does not model eviction
  inspector_ = std::make_unique<MemoryInspector>(memory_.get());
  reference_.sequence_capacity = options.sequence_capacity;
  reference_.snapshot_capacity = options.snapshot_capacity;
  digest_ = inspector_->RecordsDigest();
}

void AttentionEpisode::Operate() {
  const std::int64_t choice = random_.In(0, 99);
  if (choice < 36) {
    Step();
  } else if (choice < 40) {
    Divide();
  } else if (choice < 45) {
    Settle();
  } else if (choice < 48) {
    Defragment();
  } else {
    Verb();
  }
}

SequenceHandle AttentionEpisode::AnyHandle() {
  const SequenceHandle handle = DrawHandle();
  if (const ReferenceSequence* sequence = reference_.Find(handle)) {
    longest_drawn_ = std::max(longest_drawn_, sequence->cells.size());
  }
  return handle;
}

SequenceHandle AttentionEpisode::DrawHandle() {
  if (random_.OneIn(40) && !dead_.empty()) {
    return dead_[static_cast<std::size_t>(
        random_.In(0, static_cast<std::int64_t>(dead_.size()) - 1))];
  }
  if (random_.OneIn(200)) return static_cast<SequenceHandle>(random_.In(0, INT64_MAX - 1));
  if (reference_.sequences.empty()) return SequenceHandle::kNone;
  if (!hot_.empty() && random_.OneIn(3)) {
    return hot_[static_cast<std::size_t>(
        random_.In(0, static_cast<std::int64_t>(hot_.size()) - 1))];
  }
  auto at = reference_.sequences.begin();
  std::advance(at, random_.In(0, static_cast<std::int64_t>(reference_.sequences.size()) - 1));
  // Prefers long sequences, because their lists have several extents.
  if (at->second.cells.size() < 97 && !random_.OneIn(3)) {
    for (auto other = reference_.sequences.begin(); other != reference_.sequences.end(); ++other) {
      if (other->second.cells.size() > at->second.cells.size() && random_.OneIn(2)) at = other;
    }
  }
  if (at->second.is_published && !random_.OneIn(4)) return DrawHandle();
  return at->first;
}

SequenceOwner AttentionEpisode::AnyOwner() {
  return {OwnerId{static_cast<std::uint64_t>(random_.In(1000, 1001))},
          SessionId{static_cast<std::uint64_t>(random_.In(1, 3))},
          static_cast<std::uint64_t>(random_.In(0, 1))};
}

PosRange AttentionEpisode::AnyRange(SequenceHandle handle) {
  if (random_.OneIn(60)) return {Pos{-1}, kPosEnd};
  if (random_.OneIn(60)) return {Pos{9}, Pos{8}};
  const ReferenceSequence* sequence = reference_.Find(handle);
  if (sequence == nullptr || sequence->cells.empty() || random_.OneIn(20)) return {};
  const auto position = [&] {
    const auto ordinal = random_.In(0, static_cast<std::int64_t>(sequence->cells.size()) - 1);
    return static_cast<std::int32_t>(sequence->cells[static_cast<std::size_t>(ordinal)].position);
  };
  std::int32_t begin = random_.OneIn(4) ? 0 : position();
  std::int32_t end = random_.OneIn(5) ? kPosEnd.value : position();
  if (begin > end) std::swap(begin, end);
  if (!random_.OneIn(4) && end != kPosEnd.value) end = std::min(end, begin + 20);
  return {Pos{begin}, Pos{end}};
}

PosRange AttentionEpisode::AnyWholeExtents(SequenceHandle handle) {
  const ReferenceSequence* sequence = reference_.Find(handle);
  if (sequence == nullptr || sequence->cells.empty()) return {};
  const std::vector<std::uint32_t> bounds = inspector_->ExtentBounds(handle);
  const auto extent_count = static_cast<std::int64_t>(bounds.size()) - 1;
  const std::int64_t first = random_.In(0, extent_count - 1);
  const std::int64_t last = random_.OneIn(2) ? extent_count : random_.In(first + 1, extent_count);
  const auto position = [&](std::int64_t bound) {
    const std::size_t ordinal = bounds[static_cast<std::size_t>(bound)];
    return ordinal == sequence->cells.size()
               ? kPosEnd
               : Pos{static_cast<std::int32_t>(sequence->cells[ordinal].position)};
  };
  return {position(first), position(last)};
}

std::int32_t AttentionEpisode::AnyDelta(PosRange range) {
  switch (random_.In(0, 9)) {
    case 0: return 0;
    case 1: return static_cast<std::int32_t>(random_.In(INT32_MIN, INT32_MAX));
    case 2: return -range.begin.value;
    case 3:
    case 4:
    case 5: return static_cast<std::int32_t>(random_.In(-30, 0));
    default: return static_cast<std::int32_t>(random_.In(0, 60));
  }
}

std::size_t AttentionEpisode::AnyTokenCount() {
  switch (random_.In(0, 9)) {
    case 0:
    case 1: return static_cast<std::size_t>(random_.In(60, 250));
    case 2: return static_cast<std::size_t>(random_.In(9, 70));
    case 3:
    case 4:
    case 5: return static_cast<std::size_t>(random_.In(2, 8));
    default: return 1;
  }
}

}  // namespace kvd::memory_model
