// BlockPacker: packs the cells of sparse blocks into fewer blocks and returns unused slabs of the
// pool to the system. A BlockPacker is a part of Memory. Thread: the engine thread, while no step
// runs.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/transaction.h"

namespace kvd {

// Copies the bytes of consecutive cells of one block to another block of the same group, unchanged.
// The engine implements the interface.
class CellMover {
 public:
  virtual ~CellMover() = default;
  virtual void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                         BlockId destination_block, std::uint32_t destination_cell,
                         std::uint32_t count) = 0;
};

// The result of one slice of a defragmentation.
struct DefragSlice {
  std::uint64_t cells_moved = 0;
  std::uint32_t sequences_rewritten = 0;
  std::uint32_t blocks_freed = 0;
  std::uint64_t bytes_returned = 0;       // returned to the system
  std::chrono::nanoseconds returning{0};  // time spent returning those bytes
  bool is_done = false;                   // no block is left to be emptied
};

class BlockPacker {
 public:
  explicit BlockPacker(MemoryStore& store) : store_(store) {}
  BlockPacker(const BlockPacker&) = delete;
  BlockPacker& operator=(const BlockPacker&) = delete;

  // Packs about cells_max cells of sparse blocks of one group. The deltas, positions and sharing of
  // cells do not change. Errors: kNoSpace (no room for lists or in the pool); nothing has changed
  // then.
  Result<DefragSlice> Advance(std::uint32_t cells_max, CellMover& mover);

 private:
  struct Moves;
  struct MovedList;

  void ChooseSources(std::uint32_t cells_max, Moves* moves) const KVD_REQUIRES(store_.mutex);
  // Calls visit(index, view) for the lists of a group, by sequence; the mutex is held for one
  // portion of lists at a time. Errors: those of `visit`; the first one ends the visits.
  template <class Visit>
  Status VisitLists(std::uint32_t group, const Visit& visit) KVD_EXCLUDES(store_.mutex);
  void PlaceCells(Moves* moves) KVD_REQUIRES(store_.growth_mutex) KVD_EXCLUDES(store_.mutex);
  // Sets the ranges in store_.scratch to the list's ranges with the moved cells at their new
  // places. False: the list contains no moved cell.
  bool MapPieces(const ExtentView& view, Moves* moves) KVD_REQUIRES(store_.mutex);
  Status CopyCells(const Moves& moves, CellMover& mover) KVD_REQUIRES(store_.growth_mutex);
  Status WriteMovedLists(Moves* moves) KVD_EXCLUDES(store_.mutex);
  // Commits a written list. If the list's sequence has changed since the list was written, the list
  // is written again. If there is no room to write the list again, the sequence keeps its old list.
  void CommitMovedList(const MovedList& written, Moves* moves) KVD_REQUIRES(store_.mutex);
  Status RewriteLists(Moves* moves) KVD_EXCLUDES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
