// Packing: the live cells of sparse blocks, and of blocks with higher numbers than the group's live
// cells need, are copied into the lowest free blocks, in the order in which sequences see the
// cells. Then every list that refers to a copied cell is rewritten, in one commit per sequence. A
// cell moves with its bytes, its record and its delta, so results computed from it do not change,
// and shared cells stay shared.
//
// Cells of blocks that the same owners hold are packed together, apart from all other cells. No
// owner therefore holds more blocks after a slice than before, and evictable cells stay apart from
// held cells. Sequences that are forked during the slice are an exception: the forks keep the old
// blocks.
//
// A slice empties some blocks; steps and verbs run between slices. No step runs during a slice, so
// no cell of the blocks to empty is written. Verbs may run during a slice, because the lists are
// visited in portions, each under the lock. A list that a verb makes after its portion was visited
// still refers to the old cells. A block to whose cells a list of a verb still refers is not
// emptied, and a later slice chooses the block again.
#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>

#include "base/check.h"
#include "engine/memory/block_packer.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/reservation.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

// A block with fewer live cells than kSparseCells is a candidate to be emptied.
constexpr std::uint32_t kSparseCells = 24;

// The number of extents that are visited under one lock. The last list is always visited to its
// end, so that more extents may be visited.
constexpr std::size_t kExtentsAtOnce = 2048;

}  // namespace

// A list with the moved cells at their new places, written but not committed.
struct BlockPacker::MovedList {
  std::uint32_t index = 0;           // index of the list's sequence
  std::uint64_t content_number = 0;  // the sequence's content number when the list was written
  layout::ListRoot root;
};

// The new places of the cells of the slice's source blocks.
struct BlockPacker::Moves {
  explicit Moves(std::uint32_t of_group) : group(of_group) {}
  static constexpr std::uint32_t kNowhere = ~0u;
  struct Target {
    std::uint32_t block = kNowhere;
    std::uint32_t cell = 0;
  };
  struct Run {
    std::uint32_t from_block, from_cell, to_block, to_cell, count;
  };
  // A block to empty.
  struct Source {
    std::uint32_t block = 0;
    std::uint32_t owners = 0;  // index of its set of owners
    std::array<Target, layout::kBlockCells> targets = {};
  };
  // The block that is being filled for one set of owners.
  struct Destination {
    std::uint32_t block = 0;
    std::uint32_t room = 0;  // number of free cells left
  };
  std::uint32_t group;
  std::vector<Source> sources;
  // By block: index of its entry in `sources`, plus 1; 0: none.
  std::vector<std::uint32_t> source_at;
  std::vector<Destination> destinations;
  std::vector<Run> runs;
  std::uint64_t cells = 0;
  std::vector<MovedList> written;
  Reservation reservation;  // of the destination blocks

  bool is_source(std::uint32_t block) const { return source_at[block] != 0; }
  Source& SourceAt(std::uint32_t block) { return sources[source_at[block] - 1]; }
};

namespace {

struct Candidate {
  std::uint32_t block = 0;
  std::uint32_t live = 0;
  std::uint32_t owners = 0;  // index of its set of owners
  // True: the block's number is above 17/16 of the number of blocks that the live cells need.
  bool is_behind = false;

  bool is_sparse() const { return live < kSparseCells; }
};

constexpr std::uint64_t BlocksFor(std::uint64_t cells) {
  return (cells + layout::kBlockCells - 1) / layout::kBlockCells;
}

// Packing: the numbers of cells and blocks that one set of owners holds.
struct Packing {
  std::uint64_t cells = 0;
  std::uint64_t blocks = 0;
};

// Returns the blocks that are worth emptying, in any order. Sets set_count to the number of
// different sets of owners of the returned blocks.
std::vector<Candidate> FindCandidates(const BlockTable& blocks, std::uint32_t* set_count) {
  const std::uint64_t needed = BlocksFor(blocks.live_cells());
  std::map<std::vector<OwnerId>, std::uint32_t> sets;
  std::vector<Packing> sparse;  // by set
  std::vector<Candidate> candidates;
  std::vector<OwnerId> owners;
  for (std::uint32_t block = 0; block < blocks.block_count(); ++block) {
    if (!blocks.is_used(block)) continue;
    Candidate candidate{.block = block,
                        .live = static_cast<std::uint32_t>(std::popcount(blocks.live_mask(block))),
                        .owners = 0,
                        .is_behind = block >= needed + needed / 16 + 1};
    if (!candidate.is_sparse() && !candidate.is_behind) continue;
    blocks.ListOwners(block, &owners);
    auto known = sets.find(owners);
    if (known == sets.end()) {
      known = sets.emplace(owners, static_cast<std::uint32_t>(sets.size())).first;
      sparse.emplace_back();
    }
    candidate.owners = known->second;
    if (candidate.is_sparse()) {
      sparse[candidate.owners].cells += candidate.live;
      ++sparse[candidate.owners].blocks;
    }
    candidates.push_back(candidate);
  }
  // A block is left out if packing the sparse blocks of its set of owners would free no block,
  // unless the block's number is higher than the live cells need.
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const Packing& packing = sparse[candidate.owners];
    return !candidate.is_behind && BlocksFor(packing.cells) == packing.blocks;
  });
  *set_count = static_cast<std::uint32_t>(sets.size());
  return candidates;
}

}  // namespace

// Chooses the blocks to empty next: first the sparse blocks, one set of owners after the other and
// within a set the sparsest block first; then the other candidates, the highest block first. The
// cells of the chosen blocks must fit into fewer blocks or into lower blocks.
void BlockPacker::ChooseSources(std::uint32_t cells_max, Moves* moves) const {
  const BlockAllocator& allocator = store_.allocators[moves->group];
  std::uint32_t set_count = 0;
  std::vector<Candidate> candidates =
      FindCandidates(store_.tables.blocks[moves->group], &set_count);
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.is_sparse() != b.is_sparse()) return a.is_sparse();
    if (!a.is_sparse()) return a.block > b.block;
    return std::tuple(a.owners, a.live, b.block) < std::tuple(b.owners, b.live, a.block);
  });
  std::uint64_t cells = 0;
  std::uint64_t needed = 0;  // blocks
  std::uint32_t sparse = 0;
  std::vector<std::uint64_t> cells_of(set_count);
  for (const Candidate& candidate : candidates) {
    if (cells + candidate.live > cells_max && !moves->sources.empty()) break;
    std::uint64_t& own_cells = cells_of[candidate.owners];
    const std::uint64_t more = BlocksFor(own_cells + candidate.live) - BlocksFor(own_cells);
    if (needed + more > allocator.free_blocks()) break;
    cells += candidate.live;
    own_cells += candidate.live;
    needed += more;
    sparse += candidate.is_sparse();
    moves->sources.push_back({.block = candidate.block, .owners = candidate.owners});
  }
  // If all sources are sparse, the number of blocks must fall. If not all sources are sparse, the
  // slice is useful if the cells fit into free blocks with lower numbers than the last source.
  const bool gains = needed < moves->sources.size();
  const bool comes_forward = sparse < moves->sources.size() &&
                             allocator.CountFreeBelow(moves->sources.back().block) >= needed;
  if (!gains && !comes_forward) moves->sources.clear();
  moves->source_at.assign(store_.geometry().block_count[moves->group], 0);
  for (std::size_t i = 0; i < moves->sources.size(); ++i) {
    moves->source_at[moves->sources[i].block] = static_cast<std::uint32_t>(i) + 1;
  }
  moves->destinations.assign(set_count, {});
}

template <class Visit>
Status BlockPacker::VisitLists(std::uint32_t group, const Visit& visit) {
  const std::uint32_t capacity = store_.geometry().sequence_capacity;
  for (std::uint32_t index = 0; index < capacity;) {
    const MutexLock lock(store_.mutex);
    std::size_t looked = 0;
    for (; index < capacity && looked < kExtentsAtOnce; ++index) {
      ++looked;
      const layout::SequenceRecord& record = store_.meta.sequences()[index];
      if ((record.flags & layout::kSequenceLive) == 0) continue;
      const ExtentView view = store_.ViewOf(record, group);
      looked += view.entries.size();
      KVD_CHECK_OK(visit(index, view));
    }
    store_.looks.extents_at_once = std::max<std::uint64_t>(store_.looks.extents_at_once, looked);
  }
  return {};
}

// Assigns a place to each cell of the source blocks that a sequence still refers to, in the order
// in which sequences see the cells.
void BlockPacker::PlaceCells(Moves* moves) {
  const auto place = [&](std::uint32_t block, std::uint32_t cell) {
    store_.mutex.AssertHeld();
    Moves::Source& source = moves->SourceAt(block);
    Moves::Target& target = source.targets[cell];
    if (target.block != Moves::kNowhere) return;
    Moves::Destination& destination = moves->destinations[source.owners];
    if (destination.room == 0) {
      // Other threads may have taken blocks since the sources were chosen. Without a free block,
      // the cell stays in its source block.
      if (store_.allocators[moves->group].free_blocks() == 0) return;
      destination = {moves->reservation.TakeBlock(moves->group, layout::kBlockCells),
                     layout::kBlockCells};
    }
    target = {destination.block, layout::kBlockCells - destination.room};
    --destination.room;
    ++moves->cells;
    if (!moves->runs.empty()) {
      Moves::Run& last = moves->runs.back();
      if (last.from_block == block && last.from_cell + last.count == cell &&
          last.to_block == target.block && last.to_cell + last.count == target.cell) {
        ++last.count;
        return;
      }
    }
    moves->runs.push_back({block, cell, target.block, target.cell, 1});
  };
  (void)VisitLists(moves->group, [&](std::uint32_t, const ExtentView& view) -> Status {
    for (std::size_t e = 0; e < view.entries.size(); ++e) {
      const BlockRange range = view.RangeAt(e);
      if (!moves->is_source(range.block)) continue;
      for (std::uint32_t k = 0; k < range.count; ++k) place(range.block, range.first + k);
    }
    return {};
  });
}

bool BlockPacker::MapPieces(const ExtentView& view, Moves* moves) {
  std::vector<BlockRange>& ranges = store_.scratch.edits[moves->group].ranges;
  ranges.clear();
  bool changes = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    const BlockRange range = view.RangeAt(e);
    if (!moves->is_source(range.block)) {
      AppendPiece(&ranges, range);
      continue;
    }
    for (std::uint32_t k = 0; k < range.count; ++k) {
      const auto cell = static_cast<std::uint16_t>(range.first + k);
      const Moves::Target& target = moves->SourceAt(range.block).targets[cell];
      const bool has_place = target.block != Moves::kNowhere;
      AppendPiece(&ranges, has_place
                               ? BlockRange{target.block, static_cast<std::uint16_t>(target.cell),
                                            1, range.delta}
                               : BlockRange{range.block, cell, 1, range.delta});
      changes = changes || has_place;
    }
  }
  return changes;
}

Status BlockPacker::CopyCells(const Moves& moves, CellMover& mover) {
  for (const std::uint32_t block : moves.reservation.blocks(moves.group)) {
    KVD_CHECK_OK(store_.EnsureBlock(moves.group, block));
  }
  const bool has_bytes = store_.geometry().block_stride_bytes[moves.group] != 0;
  for (const Moves::Run& run : moves.runs) {
    if (has_bytes) {
      mover.MoveCells(moves.group, static_cast<BlockId>(run.from_block), run.from_cell,
                      static_cast<BlockId>(run.to_block), run.to_cell, run.count);
    }
    for (std::uint32_t k = 0; k < run.count; ++k) {
      const layout::CellRecord& record =
          store_.meta.cells(moves.group, run.from_block)[run.from_cell + k];
      store_.WriteCell(moves.group, run.to_block, run.to_cell + k, record.token, record.stored_pos,
                       record.key_form);
    }
  }
  return {};
}

// All lists are written before the first one is committed. If a list could not be written after
// another list was committed, the cells that both lists share would exist twice.
Status BlockPacker::WriteMovedLists(Moves* moves) {
  return VisitLists(moves->group, [&](std::uint32_t index, const ExtentView& view) -> Status {
    store_.mutex.AssertHeld();
    if (!MapPieces(view, moves)) return {};
    KVD_TRY(const layout::ListRoot root,
            WriteList(store_, store_.scratch.edits[moves->group].ranges,
                      store_.meta.sequences()[index].first_cell[moves->group]));
    moves->written.push_back({index, store_.facts[index].content_number, root});
    return {};
  });
}

void BlockPacker::CommitMovedList(const MovedList& written, Moves* moves) {
  layout::SequenceRecord record = store_.meta.sequences()[written.index];
  const std::uint32_t group = moves->group;
  Transaction transaction(store_);
  transaction.Adopt(written.root);
  layout::ListRoot root = written.root;
  if (store_.facts[written.index].content_number != written.content_number) {
    if ((record.flags & layout::kSequenceLive) == 0) return;
    if (!MapPieces(store_.ViewOf(record, group), moves)) return;
    const Result<layout::ListRoot> other =
        transaction.WriteList(store_.scratch.edits[group].ranges, record.first_cell[group]);
    if (!other) return;
    root = *other;
    transaction.GiveBack(written.root);
  }
  record.extents[group] = root;
  transaction.Put(written.index, record, Change::kMoved);
  const Status committed = transaction.Commit();
  KVD_ASSERT(committed.has_value());  // one record always fits
}

Status BlockPacker::RewriteLists(Moves* moves) {
  const Status status = WriteMovedLists(moves);
  for (std::size_t at = 0; at < moves->written.size();) {
    const MutexLock lock(store_.mutex);
    std::size_t looked = 0;
    for (; at < moves->written.size() && looked < kExtentsAtOnce; ++at) {
      const MovedList& written = moves->written[at];
      looked += 1 + written.root.entry_count;
      if (status) {
        CommitMovedList(written, moves);
      } else {
        FreeList(store_, written.root);
      }
    }
    store_.looks.extents_at_once = std::max<std::uint64_t>(store_.looks.extents_at_once, looked);
  }
  return status;
}

Result<DefragSlice> BlockPacker::Advance(std::uint32_t cells_max, CellMover& mover) {
  Moves moves(0);
  const MutexLock growth(store_.growth_mutex);
  DefragSlice slice;
  const std::uint64_t reserved_before = store_.segments.pool.reserved_bytes();
  std::uint32_t used_before = 0;
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(!store_.step_is_running);
    if (store_.defragmentation_pauses > 0) return slice;
    // A slice packs one group: the first group with blocks that are worth emptying.
    for (std::uint32_t group = 0; group < store_.group_count() && moves.sources.empty(); ++group) {
      moves = Moves(group);
      ChooseSources(cells_max, &moves);
    }
    if (moves.sources.empty()) {
      slice.is_done = true;
      return slice;
    }
    moves.reservation.Open(store_);
    store_.BeginRead();
    used_before = store_.tables.blocks[moves.group].used_blocks();
  }
  PlaceCells(&moves);
  Status status = CopyCells(moves, mover);
  if (status) status = RewriteLists(&moves);
  if (status) {
    slice.sequences_rewritten = static_cast<std::uint32_t>(moves.written.size());
    slice.cells_moved = moves.cells;
  }
  {
    const MutexLock lock(store_.mutex);
    moves.reservation.GiveBack();
    store_.EndRead();
    const std::uint32_t used = store_.tables.blocks[moves.group].used_blocks();
    slice.blocks_freed = used_before > used ? used_before - used : 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  store_.segments.pool.PunchUnused();
  slice.returning = std::chrono::steady_clock::now() - begin;
  const std::uint64_t reserved = store_.segments.pool.reserved_bytes();
  slice.bytes_returned = reserved_before > reserved ? reserved_before - reserved : 0;
  if (!status) return std::unexpected(std::move(status).error());
  return slice;
}

}  // namespace kvd
