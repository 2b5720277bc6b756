// Packing: the live cells of sparse blocks, and of blocks behind the point where a group could end,
// are copied into the lowest free blocks, in the order in which sequences see them; then every list
// that refers to them is rewritten, one commit a sequence. A cell moves with its bytes, its record
// and its delta, so nothing that is computed from it changes, and cells that were shared stay so.
//
// A slice takes some blocks; between two slices steps and verbs run. Within a slice no step runs, so
// no cell of these blocks is written; verbs may come in between, because the lists are looked at in
// portions, each under the lock. A list that a verb makes meanwhile, out of the portions' sight,
// keeps the old cells: their block is not emptied then, and a later slice finds it again.
#include <algorithm>
#include <bit>
#include <string>

#include "engine/memory/defragmenter.h"
#include "engine/memory/list_writer.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/reservation.h"
#include "shm/check.h"

namespace kvd {
namespace {

// A block with fewer live cells is worth emptying.
constexpr int kSparseCells = 24;

// Extents that are looked at under one lock, but for the rest of a list.
constexpr std::size_t kExtentsAtOnce = 2048;

}  // namespace

// A list with the moved cells where they are now, written and not committed yet.
struct Defragmenter::MovedList {
  std::uint32_t index = 0;           // of its sequence
  std::uint64_t content_number = 0;  // that the sequence had
  layout::ListRoot root;
};

// Where the cells of the slice's blocks go.
struct Defragmenter::Moves {
  explicit Moves(std::uint32_t of_group) : group(of_group) {}
  static constexpr std::uint32_t kNowhere = ~0u;
  struct Target {
    std::uint32_t block = kNowhere;
    std::uint32_t cell = 0;
  };
  struct Run {
    std::uint32_t from_block, from_cell, to_block, to_cell, count;
  };
  std::uint32_t group;
  std::vector<std::uint32_t> sources;         // blocks to be emptied
  std::vector<std::uint32_t> slot_of_source;  // by block: index + 1 into `targets`, 0: none
  std::vector<std::array<Target, layout::kBlockCells>> targets;
  std::vector<Run> runs;
  std::uint64_t cells = 0;
  std::vector<MovedList> written;
  Reservation reservation;  // of the blocks that the cells go to

  const std::vector<std::uint32_t>& destinations() const { return reservation.blocks(group); }
  bool is_source(std::uint32_t block) const { return slot_of_source[block] != 0; }
  Target& TargetOf(std::uint32_t block, std::uint32_t cell) {
    return targets[slot_of_source[block] - 1][cell];
  }
};

// The blocks to empty next: the sparsest first, then those farthest behind. Their cells fit fewer
// blocks, or blocks farther in front.
void Defragmenter::ChooseSources(std::uint32_t cells_max, Moves* moves) const {
  const BlockTable& blocks_in_use = store_.tables.blocks[moves->group];
  const BlockAllocator& allocator = store_.allocators[moves->group];
  const std::uint32_t block_count = store_.geometry().block_count[moves->group];
  const std::uint64_t needed =
      (blocks_in_use.live_cells() + layout::kBlockCells - 1) / layout::kBlockCells;
  struct Candidate {
    std::uint32_t block;
    int live;
    bool is_behind;
  };
  std::vector<Candidate> candidates;
  for (std::uint32_t block = 0; block < block_count; ++block) {
    if (!blocks_in_use.is_used(block)) continue;
    const int live = std::popcount(blocks_in_use.live_mask(block));
    const bool is_behind = block >= needed + needed / 16 + 1;
    if (live < kSparseCells || is_behind) candidates.push_back({block, live, is_behind});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    const bool a_sparse = a.live < kSparseCells, b_sparse = b.live < kSparseCells;
    if (a_sparse != b_sparse) return a_sparse;
    if (a_sparse && a.live != b.live) return a.live < b.live;
    return a.block > b.block;
  });
  moves->slot_of_source.assign(block_count, 0);
  std::uint64_t cells = 0;
  std::uint32_t sparse = 0;
  for (const Candidate& candidate : candidates) {
    const auto live = static_cast<std::uint64_t>(candidate.live);
    if (cells + live > cells_max && !moves->sources.empty()) break;
    const std::uint64_t blocks = (cells + live + layout::kBlockCells - 1) / layout::kBlockCells;
    if (blocks > allocator.free_blocks()) break;
    cells += live;
    sparse += candidate.live < kSparseCells;
    moves->sources.push_back(candidate.block);
  }
  // Sparse blocks alone must become fewer; blocks from behind must find a place in front.
  const std::uint64_t blocks = (cells + layout::kBlockCells - 1) / layout::kBlockCells;
  const bool gains = blocks < moves->sources.size();
  const bool comes_forward =
      sparse < moves->sources.size() && allocator.CountFreeBelow(moves->sources.back()) >= blocks;
  if (!gains && !comes_forward) moves->sources.clear();
  for (std::size_t i = 0; i < moves->sources.size(); ++i) {
    moves->slot_of_source[moves->sources[i]] = static_cast<std::uint32_t>(i) + 1;
  }
  moves->targets.resize(moves->sources.size());
}

template <class Visit>
Status Defragmenter::VisitLists(std::uint32_t group, const Visit& visit) {
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

// Gives each live cell of the sources a place, in the order in which sequences see them.
void Defragmenter::PlaceCells(Moves* moves) {
  std::uint32_t room = 0;  // cells left in the last destination
  const auto place = [&](std::uint32_t block, std::uint32_t cell) {
    store_.mutex.AssertHeld();
    Moves::Target& target = moves->TargetOf(block, cell);
    if (target.block != Moves::kNowhere) return;
    if (room == 0) {
      moves->reservation.TakeBlock(moves->group, layout::kBlockCells);
      room = layout::kBlockCells;
    }
    target = {moves->destinations().back(), layout::kBlockCells - room};
    --room;
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
      const Piece piece = view.PieceAt(e);
      if (!moves->is_source(piece.block)) continue;
      for (std::uint32_t k = 0; k < piece.count; ++k) place(piece.block, piece.first + k);
    }
    return {};
  });
}

bool Defragmenter::MapPieces(const ExtentView& view, Moves* moves) {
  std::vector<Piece>& pieces = store_.scratch.edits[moves->group].pieces;
  pieces.clear();
  bool changes = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    const Piece piece = view.PieceAt(e);
    if (!moves->is_source(piece.block)) {
      AppendPiece(&pieces, piece);
      continue;
    }
    for (std::uint32_t k = 0; k < piece.count; ++k) {
      const auto cell = static_cast<std::uint16_t>(piece.first + k);
      const Moves::Target& target = moves->TargetOf(piece.block, cell);
      const bool has_place = target.block != Moves::kNowhere;
      AppendPiece(&pieces, has_place ? Piece{target.block, static_cast<std::uint16_t>(target.cell),
                                             1, piece.delta}
                                     : Piece{piece.block, cell, 1, piece.delta});
      changes = changes || has_place;
    }
  }
  return changes;
}

Status Defragmenter::CopyCells(const Moves& moves, CellMover& mover) {
  for (const std::uint32_t block : moves.destinations()) {
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

// All lists are written before the first one is committed: were some left behind, cells that their
// sequences share with others would be there twice.
Status Defragmenter::WriteMovedLists(Moves* moves) {
  return VisitLists(moves->group, [&](std::uint32_t index, const ExtentView& view) -> Status {
    store_.mutex.AssertHeld();
    if (!MapPieces(view, moves)) return {};
    KVD_TRY(const layout::ListRoot root,
            WriteList(store_, store_.scratch.edits[moves->group].pieces,
                      store_.meta.sequences()[index].first_cell[moves->group]));
    moves->written.push_back({index, store_.facts[index].content_number, root});
    return {};
  });
}

void Defragmenter::CommitMovedList(const MovedList& written, Moves* moves) {
  layout::SequenceRecord record = store_.meta.sequences()[written.index];
  const std::uint32_t group = moves->group;
  Transaction transaction(store_);
  transaction.Adopt(written.root);
  layout::ListRoot root = written.root;
  if (store_.facts[written.index].content_number != written.content_number) {
    if ((record.flags & layout::kSequenceLive) == 0) return;
    if (!MapPieces(store_.ViewOf(record, group), moves)) return;
    const Result<layout::ListRoot> other =
        transaction.WriteList(store_.scratch.edits[group].pieces, record.first_cell[group]);
    if (!other) return;
    root = *other;
    transaction.GiveBack(written.root);
  }
  record.extents[group] = root;
  transaction.Put(written.index, record, Change::kMoved);
  const Status committed = transaction.Commit();
  KVD_ASSERT(committed.has_value());  // one record fits
}

Status Defragmenter::RewriteLists(Moves* moves) {
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

Result<DefragSlice> Defragmenter::Advance(std::uint32_t cells_max, CellMover& mover) {
  Moves moves(0);
  const MutexLock growth(store_.growth_mutex);
  DefragSlice slice;
  const std::uint64_t reserved_before = store_.segments.pool.reserved_bytes();
  std::uint32_t used_before = 0;
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(!store_.step_is_running);
    if (store_.defragmentation_pauses > 0) return slice;
    // One group a slice, those with something to gain one after the other.
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
