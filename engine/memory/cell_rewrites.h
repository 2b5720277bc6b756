// CellRewrites: divides positions, settles shifted cells and changes the form of keys, in slices
// (cell_rewrite.h). CellRewrites is a part of Memory. Thread: the engine thread, while no step
// runs.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "engine/memory/cell_rewrite.h"
#include "engine/memory/memory_store.h"

namespace kvd {

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
