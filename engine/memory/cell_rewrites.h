// CellRewrites: divides positions, settles shifted cells and changes the form of keys, in slices.
// CellRewrites is a part of Memory. Thread: the engine thread, while no step runs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "shm/segment_layout.h"

namespace kvd {

// CellRewrite: a rewrite of a sequence's K rows in slices. Dividing positions, settling shifted
// cells and changing the form of keys need different K bytes: each slice of a rewrite copies some
// of the cells into fresh blocks with their keys rotated, and one commit at the end makes the
// sequence refer to those blocks.
//
// Like a restore, a rewrite reserves blocks that no committed list refers to: a killed process
// leaves nothing to clean up, and an abandoned rewrite changes nothing.

// Which cells settling rewrites so that they are stored at their effective positions. kShifted: the
// shortest run of cells that contains all shifted cells; kAll: every cell, if any cell is shifted.
enum class SettleScope : std::uint8_t { kShifted, kAll };

struct RewriteRequest {
  enum class Kind : std::uint8_t { kDivide, kSettle, kChangeForm };
  SequenceHandle handle = SequenceHandle::kNone;
  Kind kind = Kind::kDivide;
  PosRange range;                         // kDivide
  std::int32_t divisor = 1;               // kDivide, above 0
  SettleScope scope = SettleScope::kAll;  // kSettle
  // kChangeForm: the target form. The shortest run of cells that contains all keys of another form
  // is rewritten to this form at the cells' effective positions.
  std::uint32_t key_form = 0;
  // False: the rewrite evicts nothing and fails with kNoSpace if there are too few free blocks.
  bool may_evict = true;
  RequestTag applied{};  // recorded with the commit
};

// A rewrite in progress. Destroying the object before the rewrite is committed leaves the sequence
// unchanged.
struct CellRewrite {
  struct Group {
    std::uint32_t first_cell = 0;          // ordinal of the first cell to rewrite
    std::uint32_t done = 0;                // cells rewritten so far
    std::vector<BlockRange> destinations;  // fresh blocks, delta 0
  };
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint64_t content_number = 0;       // the sequence's number at Begin; the commit compares it
  std::int32_t divisor = 1;               // of the positions; 1: unchanged
  std::optional<std::uint32_t> key_form;  // unset: each cell keeps its form
  std::uint32_t begin_cell = 0;           // ordinals [begin_cell, end_cell) are rewritten
  std::uint32_t end_cell = 0;
  RequestTag applied;
  std::array<Group, layout::kGroupsMax> groups;
  std::uint32_t cells_left = 0;  // cells left to rewrite, in all groups
  Reservation reservation;

  // False: the rewrite has ended, or no cell had to be rewritten.
  bool is_open() const { return reservation.is_open(); }
  std::uint32_t cell_count() const { return end_cell - begin_cell; }
};

// Rewrites the K rows of one cell of a group: reads the source cell, whose K is rotated for the
// stored position `from`, and writes it to the destination rotated for `to`; V is copied. The
// engine implements the interface.
class CellRotator {
 public:
  virtual ~CellRotator() = default;
  virtual Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                            Pos from, BlockId destination_block, std::uint32_t destination_cell,
                            Pos to) = 0;
};

class CellRewrites {
 public:
  explicit CellRewrites(MemoryStore& store) : store_(store) {}
  CellRewrites(const CellRewrites&) = delete;
  CellRewrites& operator=(const CellRewrites&) = delete;

  // Finds the cells to rewrite and reserves fresh blocks for them. If no cell needs to be
  // rewritten, the returned rewrite has already ended (is_open is false). Steps and verbs may run
  // between the slices of the rewrite. Errors: kNotFound; kPermission; kInvalidArgument (an invalid
  // range or divisor, an unknown key form, a divided position that would be below the position of a
  // cell before the range); kNoSpace. On error nothing has changed.
  Result<CellRewrite> Begin(const RewriteRequest& request);
  // The number of cells that Begin would rewrite. Errors: those of Begin except kNoSpace.
  Result<std::uint32_t> Count(const RewriteRequest& request);
  // Rewrites up to cells_max cells, at least one; the last slice commits the rewrite. Returns
  // whether the rewrite has ended. Errors: kConflict (the sequence was changed or dropped),
  // kNoSpace, kWindowLost, those of the rotator. After an error the rewrite has ended and the
  // sequence is unchanged.
  Result<bool> Advance(CellRewrite& rewrite, std::uint32_t cells_max, CellRotator& rotator);

 private:
  // Finds the cells of a rewrite; an empty range: nothing to rewrite.
  Status PlanRewrite(const FoundSequence& found, const RewriteRequest& request,
                     CellRewrite* rewrite) KVD_REQUIRES(store_.mutex);
  Status PlanDivision(const FoundSequence& found, PosRange range, CellRewrite* division) const
      KVD_REQUIRES(store_.mutex);
  Status PlanSettling(const FoundSequence& found, SettleScope scope, CellRewrite* settling) const
      KVD_REQUIRES(store_.mutex);
  Status PlanReforming(const FoundSequence& found, CellRewrite* reforming)
      KVD_REQUIRES(store_.mutex);
  // Reserves fresh blocks for all cells of the rewrite, or reserves nothing.
  Status ReserveRewritten(const FoundSequence& found, bool may_evict, CellRewrite* rewrite)
      KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  // Returns the sequence that is being rewritten. Errors: kConflict (the sequence's content has
  // changed since Begin).
  Result<FoundSequence> FindRewritten(const CellRewrite& rewrite) const KVD_REQUIRES(store_.mutex);
  Status RotateCells(CellRewrite& rewrite, std::uint32_t group, std::span<const BlockRange> sources,
                     CellRotator& rotator) KVD_REQUIRES(store_.growth_mutex);
  Status CommitRewrite(CellRewrite& rewrite) KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
