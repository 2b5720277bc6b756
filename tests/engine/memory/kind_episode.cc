// Creates an episode's memory and draws the random arguments of operations.
#include "tests/engine/memory/kind_episode.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvd::memory_model {

KindEpisode::KindEpisode(std::uint64_t seed, Kind kind, KindTally* tally)
    : random_(seed),
      tally_(tally),
      has_state_(kind == Kind::kRecurrent || kind == Kind::kHybrid || kind == Kind::kWindowHybrid ||
                 kind == Kind::kLatentHybrid),
      has_encoder_(kind == Kind::kEncoder) {
  MemoryOptions options = SmallOptions(Cells(3, 40));
  if (kind == Kind::kRecurrent || kind == Kind::kOnlyWindow) options.groups[0].layers.clear();
  if (kind == Kind::kLatent || kind == Kind::kLatentHybrid) {
    options.groups[0].layers[0].values_in_keys = true;
  }
  if (kind == Kind::kWindow || kind == Kind::kWindowHybrid || kind == Kind::kOnlyWindow) {
    window_ = static_cast<std::uint32_t>(In(1, 80));
    options.groups.push_back({.cells = Cells(3, 20), .layers = {{1, 2, 2}}, .window = window_});
  }
  if (has_encoder_) {
    options.groups.push_back({.cells = Cells(3, 12), .layers = {{1, 2, 2}}, .is_cross = true});
  }
  if (has_state_) {
    options.state_bytes = sizeof(Sum);
    options.state_slots = static_cast<std::uint32_t>(In(3, 24));
    options.checkpoint_slots = static_cast<std::uint32_t>(In(0, 12));
    options.logits_bytes = sizeof(Sum);
    options.logits_rows = static_cast<std::uint32_t>(In(1, 4));
  }
  options.list_unit_count = options.sequence_capacity * static_cast<std::uint32_t>(In(2, 9)) / 2;
  memory_ = MakeMemory(options);
  memory_->DisableEvictionForTest();  // the reference does not model eviction
  meta_ = *ValidateHeader(memory_->meta_bytes());
  reference_.sequence_capacity = options.sequence_capacity;
  reference_.snapshot_capacity = options.snapshot_capacity;
  digest_ = Digest();
}

void KindEpisode::Operate() {
  const auto choice = In(0, 99);
  if (choice < 45) return Step();
  if (choice < 52 && has_state_) return GoBack();
  if (choice < 58) return Rewrite();
  if (choice < 61) return Defragment();
  if (choice < 65) return SaveAndRestore();
  if (choice < 70 && (has_encoder_ || OneIn(5))) return Encode();
  Verb();
}

SequenceHandle KindEpisode::Any() {
  if (reference_.sequences.empty() || OneIn(50)) return MakeHandle(3, 99);
  auto at = reference_.sequences.begin();
  std::advance(at, In(0, static_cast<std::int64_t>(reference_.sequences.size()) - 1));
  if (at->second.is_published && !OneIn(4)) return Any();
  return at->first;
}

std::int32_t KindEpisode::AnyPosition(SequenceHandle handle) {
  const ReferenceSequence* sequence = reference_.Find(handle);
  if (sequence == nullptr || sequence->cells.empty()) return 0;
  // Prefers the last 20 cells, because most edits further back fail with kWindowLost.
  const auto count = static_cast<std::int64_t>(sequence->cells.size());
  const std::int64_t at =
      OneIn(2) ? In(0, count - 1) : In(std::max<std::int64_t>(0, count - 20), count - 1);
  return static_cast<std::int32_t>(sequence->cells[static_cast<std::size_t>(at)].position);
}

PosRange KindEpisode::AnyRange(SequenceHandle handle) {
  std::int32_t begin = OneIn(5) ? 0 : AnyPosition(handle);
  std::int32_t end = OneIn(2) ? kPosEnd.value : AnyPosition(handle);
  if (begin > end) std::swap(begin, end);
  return {Pos{begin}, Pos{end}};
}

}  // namespace kvd::memory_model
