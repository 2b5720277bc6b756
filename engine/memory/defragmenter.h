// Defragmenter: packs the cells of sparse blocks and gives the system back what is unused then. Part of
// Memory. Engine thread, no step in progress.
#pragma once

#include <chrono>
#include <cstdint>

#include "engine/memory/memory_store.h"
#include "engine/memory/transaction.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// Copies the bytes of cells that lie side by side in one block of a group to another one, as they
// are. Given by the engine.
class CellMover {
 public:
  virtual ~CellMover() = default;
  virtual void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                         BlockId destination_block, std::uint32_t destination_cell,
                         std::uint32_t count) = 0;
};

// What one slice of a defragmentation did.
struct DefragSlice {
  std::uint64_t cells_moved = 0;
  std::uint32_t sequences_rewritten = 0;
  std::uint32_t blocks_freed = 0;
  std::uint64_t bytes_returned = 0;       // to the system
  std::chrono::nanoseconds returning{0};  // what giving them back took of the slice's time
  bool is_done = false;                   // nothing is left to pack
};

class Defragmenter {
 public:
  explicit Defragmenter(MemoryStore& store) : store_(store) {}
  Defragmenter(const Defragmenter&) = delete;
  Defragmenter& operator=(const Defragmenter&) = delete;

  // Packs the cells of some sparse blocks of one group, about cells_max of them. Deltas, positions and
  // what is shared stay. Errors: kNoSpace (lists, bytes of the pool); nothing has changed then.
  Result<DefragSlice> Advance(std::uint32_t cells_max, CellMover& mover);

 private:
  struct Moves;
  struct MovedList;

  void ChooseSources(std::uint32_t cells_max, Moves* moves) const KVD_REQUIRES(store_.mutex);
  // visit(index, view) for the lists of a group, by sequence; the mutex is held in portions. Errors:
  // visit's, which end it.
  template <class Visit>
  Status VisitLists(std::uint32_t group, const Visit& visit) KVD_EXCLUDES(store_.mutex);
  void PlaceCells(Moves* moves) KVD_REQUIRES(store_.growth_mutex) KVD_EXCLUDES(store_.mutex);
  // The pieces of a list with the moved cells where they are now, into scratch; false: the list has none
  // of them.
  bool MapPieces(const ExtentView& view, Moves* moves) KVD_REQUIRES(store_.mutex);
  Status CopyCells(const Moves& moves, CellMover& mover) KVD_REQUIRES(store_.growth_mutex);
  Status WriteMovedLists(Moves* moves) KVD_EXCLUDES(store_.mutex);
  // A sequence that has changed since its list was written gets another one if there is room for it.
  void CommitMovedList(const MovedList& written, Moves* moves) KVD_REQUIRES(store_.mutex);
  Status RewriteLists(Moves* moves) KVD_EXCLUDES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
