// A pass has three stages. In the first stage the pass visits the sequences by index and marks
// their cells in the views of the owners that may see the sequences. In the second stage the pass
// writes the block entries from the marks. In the third stage the pass writes sessions and totals;
// a new pass number in the totals means that all other entries of the pass are written.
#include "daemon/map_publisher.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace kvd {
namespace {

using Clock = std::chrono::steady_clock;

// Number of extents that a pass visits while it holds the memory's lock once.
constexpr std::size_t kExtentsAtOnce = 1024;
// Duration of one slice of a pass on the io thread.
constexpr std::chrono::microseconds kSlice{500};

template <class T>
std::span<const std::uint64_t> WordsOf(const std::vector<T>& entries) {
  return {reinterpret_cast<const std::uint64_t*>(entries.data()),
          entries.size() * sizeof(T) / sizeof(std::uint64_t)};
}

}  // namespace

// A View is the map of one owner, and the entries that the pass in progress collects for this map.
struct MapPublisher::View {
  explicit View(MapWriter made) : writer(std::move(made)), marks(writer.geometry().block_count) {
    sequences.resize(MapEntries(MapSection::kSequences));
    blocks.resize(MapEntries(MapSection::kBlocks));
  }
  // The cells of one block that sequences of this view refer to, one bit per cell.
  struct Marks {
    std::uint32_t sequence = 0;  // the value that the pass will write to MapBlock::sequence
    std::uint32_t used = 0;
    // One bit for each cell to which sequences of this view refer more than once.
    std::uint32_t shared = 0;
  };
  static_assert(layout::kBlockCells == 32);

  void Mark(std::uint32_t index, const BlockRange& range) {
    Marks& block = marks[range.block];
    if (block.sequence == 0) block.sequence = index + 1;
    const std::uint32_t cells = static_cast<std::uint32_t>((std::uint64_t{1} << range.count) - 1)
                                << range.first;
    block.shared |= block.used & cells;
    block.used |= cells;
  }

  std::uint32_t watchers = 0;
  MapWriter writer;
  std::vector<Marks> marks;  // the Marks of each block, indexed by block
  std::vector<layout::MapSequence> sequences;
  std::vector<layout::MapBlock> blocks;
  std::vector<layout::MapSession> sessions;
};

class MapPublisher::Stager final : public SequenceVisitor {
 public:
  explicit Stager(MapPublisher& publisher) : publisher_(publisher) {}
  void Visit(const SequenceInfo& info, std::uint32_t shared_cells, std::uint32_t checkpoint_count,
             std::span<const layout::Extent> extents) override {
    layout::MapSequence entry{};
    entry.handle = static_cast<std::uint64_t>(info.handle);
    entry.session = static_cast<std::uint64_t>(info.owner.session);
    entry.owner_uid = publisher_.sources_.uid_of(info.owner.id);
    entry.flags = info.flags;
    entry.cell_count = info.cell_count;
    entry.shared_cells = shared_cells;
    entry.checkpoint_count = checkpoint_count;
    entry.next_pos = info.next_pos.value;
    const ExtentView all{extents, info.cell_count};
    const std::uint32_t index = IndexOf(info.handle);
    for (const auto& [viewer, view] : publisher_.views_) {
      if (viewer != info.owner.id && !info.is_public) continue;
      view->sequences[index % view->sequences.size()] = entry;
      for (std::size_t at = 0; at < extents.size(); ++at) view->Mark(index, all.RangeAt(at));
    }
  }

 private:
  MapPublisher& publisher_;
};

MapPublisher::MapPublisher(IoLoop& loop, const Memory& memory, Sources sources)
    : loop_(loop), memory_(memory), sources_(std::move(sources)) {
  const PoolUsage usage = memory_.Usage();
  geometry_ = {.block_count = usage.total_blocks,
               .sequence_capacity = usage.sequence_capacity,
               .session_capacity = kSessionsShown};
}

MapPublisher::~MapPublisher() = default;

Result<int> MapPublisher::Watch(OwnerId owner) {
  auto found = views_.find(owner);
  if (found == views_.end()) {
    KVD_TRY(MapWriter writer, MapWriter::Create(geometry_, sources_.uid_of(owner)));
    found = views_.emplace(owner, std::make_unique<View>(std::move(writer))).first;
    // A running pass has visited sequences without marking them in the new view, so the pass is
    // restarted.
    stage_ = Stage::kIdle;
    is_forced_ = true;
    Arm(std::chrono::milliseconds(0));
  }
  ++found->second->watchers;
  return found->second->writer.descriptor();
}

void MapPublisher::Unwatch(OwnerId owner) {
  const auto found = views_.find(owner);
  if (found == views_.end() || --found->second->watchers != 0) return;
  views_.erase(found);
  if (views_.empty()) {
    timer_.reset();
    stage_ = Stage::kIdle;
  }
}

void MapPublisher::Arm(std::chrono::milliseconds delay) {
  timer_ = loop_.After(delay, [this] { OnTimer(); });
}

void MapPublisher::OnTimer() {
  const auto start = Clock::now();
  if (stage_ == Stage::kIdle && !Begin()) return Arm(kPeriod);
  bool goes_on = true;
  while (goes_on && Clock::now() - start < kSlice) goes_on = Continue();
  spent_ += Clock::now() - start;
  if (goes_on) return Arm(std::chrono::milliseconds(0));
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(spent_ * kRest);
  Arm(std::max(kPeriod, rest));
}

void MapPublisher::PublishNow() {
  if (stage_ == Stage::kIdle && !Begin()) return;
  while (Continue()) {
  }
}

layout::MapTotals MapPublisher::Totals() const {
  const PoolUsage usage = memory_.Usage();
  const MapCounters counters = sources_.counters();
  layout::MapTotals totals{};
  totals.live_cells = usage.live_cells;
  totals.tokens_computed = counters.tokens_computed;
  totals.tokens_sampled = counters.tokens_sampled;
  totals.steps = counters.steps;
  totals.total_blocks = usage.total_blocks;
  totals.free_blocks = usage.free_blocks;
  totals.reclaimable_blocks = usage.reclaimable_blocks;
  totals.live_sequences = usage.live_sequences;
  totals.sequence_capacity = usage.sequence_capacity;
  totals.sessions = counters.sessions;
  totals.state_slots = usage.state_slots;
  totals.free_state_slots = usage.free_state_slots;
  totals.checkpoint_slots = usage.checkpoint_slots;
  totals.logits_rows = usage.logits_rows;
  totals.free_logits_rows = usage.free_logits_rows;
  return totals;
}

bool MapPublisher::Begin() {
  commit_ = memory_.commit_number();
  totals_ = Totals();
  if (!is_forced_ && commit_ == shown_commit_ && totals_ == shown_) return false;
  is_forced_ = false;
  spent_ = {};
  for (const auto& [owner, view] : views_) {
    std::ranges::fill(view->marks, View::Marks{});
    std::ranges::fill(view->sequences, layout::MapSequence{});
  }
  cursor_ = 0;
  stage_ = Stage::kSequences;
  return true;
}

bool MapPublisher::Continue() {
  switch (stage_) {
    case Stage::kIdle: return false;
    case Stage::kSequences: VisitSomeSequences(); return true;
    case Stage::kBlocks:
      if (cursor_ < geometry_.ShardCount(MapSection::kBlocks)) {
        WriteBlocks();
        return true;
      }
      Finish();
      stage_ = Stage::kIdle;
      return false;
  }
  return false;
}

void MapPublisher::VisitSomeSequences() {
  const std::uint32_t per_shard = MapEntries(MapSection::kSequences);
  const std::uint32_t shard = cursor_ / per_shard;
  const std::uint32_t shard_end = std::min((shard + 1) * per_shard, geometry_.sequence_capacity);
  Stager stager(*this);
  cursor_ = memory_.sequences().Visit(cursor_, shard_end, kExtentsAtOnce, stager);
  if (cursor_ < shard_end) return;
  for (const auto& [owner, view] : views_) {
    view->writer.Write(MapSection::kSequences, shard, WordsOf(view->sequences));
    std::ranges::fill(view->sequences, layout::MapSequence{});
  }
  if (cursor_ < geometry_.sequence_capacity) return;
  stage_ = Stage::kBlocks;
  cursor_ = 0;
}

void MapPublisher::WriteBlocks() {
  const std::uint32_t first = cursor_ * MapEntries(MapSection::kBlocks);
  for (const auto& [owner, view] : views_) {
    std::ranges::fill(view->blocks, layout::MapBlock{});
    const auto end = std::min<std::size_t>(first + view->blocks.size(), view->marks.size());
    for (std::size_t number = first; number < end; ++number) {
      const View::Marks& marks = view->marks[number];
      view->blocks[number - first] = {
          .sequence = marks.sequence,
          .used_cells = static_cast<std::uint8_t>(std::popcount(marks.used)),
          .shared_cells = static_cast<std::uint8_t>(std::popcount(marks.shared)),
          .reserved = 0};
    }
    view->writer.Write(MapSection::kBlocks, cursor_, WordsOf(view->blocks));
  }
  ++cursor_;
}

void MapPublisher::Finish() {
  for (const auto& [owner, view] : views_) {
    view->sessions.clear();
    sources_.sessions(owner, &view->sessions);
    std::ranges::sort(view->sessions, {}, &layout::MapSession::session);
    view->sessions.resize(geometry_.ShardCount(MapSection::kSessions) *
                          MapEntries(MapSection::kSessions));
    const std::span all = WordsOf(view->sessions);
    const std::size_t shard_words = layout::kMapPageBytes / sizeof(std::uint64_t);
    for (std::uint32_t shard = 0; shard < geometry_.ShardCount(MapSection::kSessions); ++shard) {
      view->writer.Write(MapSection::kSessions, shard,
                         all.subspan(shard * shard_words, shard_words));
    }
  }
  shown_ = totals_;
  shown_commit_ = commit_;
  layout::MapTotals told = totals_;
  told.pass = ++passes_;
  told.published_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count());
  std::array<std::uint64_t, sizeof told / sizeof(std::uint64_t)> words;
  std::memcpy(words.data(), &told, sizeof told);
  for (const auto& [owner, view] : views_) view->writer.Write(MapSection::kTotals, 0, words);
}

}  // namespace kvd
