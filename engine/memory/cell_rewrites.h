// CellRewrites: dividing positions, settling shifted cells and changing the form of keys, in slices
// (cell_rewrite.h). Part of Memory. Engine thread, no step in progress.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/cell_rewrite.h"
#include "engine/memory/memory_store.h"
#include "shm/error.h"

namespace kvd {

class CellRewrites {
 public:
  explicit CellRewrites(MemoryStore& store) : store_(store) {}
  CellRewrites(const CellRewrites&) = delete;
  CellRewrites& operator=(const CellRewrites&) = delete;

  // Finds the cells and the fresh blocks; with nothing to rewrite the rewrite is over at once. Steps
  // and verbs may come in between its slices. Errors: kNotFound, kPermission, kInvalidArgument (the
  // range, the divisor, a form that is none, positions before a cell outside), kNoSpace; nothing has
  // changed then.
  Result<CellRewrite> Begin(const RewriteRequest& request);
  // How many cells that would rewrite. Errors: Begin's but kNoSpace.
  Result<std::uint32_t> Count(const RewriteRequest& request);
  // Rewrites up to cells_max cells, at least one; the last slice commits. Returns whether the rewrite is
  // over. Errors: kConflict (the sequence was changed or dropped), kNoSpace, kWindowLost, the rotator's;
  // the rewrite is over then and nothing has changed.
  Result<bool> Advance(CellRewrite& rewrite, std::uint32_t cells_max, CellRotator& rotator);

 private:
  // The cells of a rewrite; none: nothing is to be rewritten.
  Status PlanRewrite(const FoundSequence& found, const RewriteRequest& request,
                     CellRewrite* rewrite) KVD_REQUIRES(store_.mutex);
  Status PlanDivision(const FoundSequence& found, PosRange range, CellRewrite* division) const
      KVD_REQUIRES(store_.mutex);
  Status PlanSettling(const FoundSequence& found, SettleScope scope, CellRewrite* settling) const
      KVD_REQUIRES(store_.mutex);
  Status PlanReforming(const FoundSequence& found, CellRewrite* reforming)
      KVD_REQUIRES(store_.mutex);
  // Fresh blocks for all of the cells, or none.
  Status ReserveRewritten(const FoundSequence& found, bool may_evict, CellRewrite* rewrite)
      KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  // The sequence, if its cells are those that the rewrite began with. Errors: kConflict.
  Result<FoundSequence> FindRewritten(const CellRewrite& rewrite) const KVD_REQUIRES(store_.mutex);
  Status RotateCells(CellRewrite& rewrite, std::uint32_t group, std::span<const Piece> sources,
                     CellRotator& rotator) KVD_REQUIRES(store_.growth_mutex);
  Status CommitRewrite(CellRewrite& rewrite) KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
