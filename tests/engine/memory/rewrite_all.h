// RewriteAll rewrites all cells in one slice, so no step and no verb runs during the rewrite.
#pragma once

#include <cstdint>

#include "engine/memory/memory.h"
#include "tests/support/into.h"

namespace kvd {

// Runs the whole rewrite. Returns the number of rewritten cells. Errors: those of
// CellRewrites::Begin and Advance.
inline Result<std::uint32_t> RewriteAll(Memory& memory, const RewriteRequest& request,
                                        CellRotator& rotator) {
  CellRewrite rewrite;
  KVD_CHECK_OK(Into(memory.rewrites().Begin(request), &rewrite));
  while (rewrite.is_open()) {
    KVD_CHECK_OK(memory.rewrites().Advance(rewrite, rewrite.cells_left, rotator));
  }
  return rewrite.cell_count();
}

inline Result<std::uint32_t> DividePositions(Memory& memory, SequenceHandle handle, PosRange range,
                                             std::int32_t divisor, CellRotator& rotator,
                                             const RequestTag& tag = {}) {
  return RewriteAll(memory,
                    {.handle = handle,
                     .kind = RewriteRequest::Kind::kDivide,
                     .range = range,
                     .divisor = divisor,
                     .applied = tag},
                    rotator);
}

inline Result<std::uint32_t> SettleCells(Memory& memory, SequenceHandle handle, SettleScope scope,
                                         CellRotator& rotator) {
  return RewriteAll(
      memory,
      {.handle = handle, .kind = RewriteRequest::Kind::kSettle, .range = {}, .scope = scope},
      rotator);
}

inline Result<std::uint32_t> ChangeKeyForm(Memory& memory, SequenceHandle handle,
                                           std::uint32_t key_form, CellRotator& rotator) {
  return RewriteAll(memory,
                    {.handle = handle,
                     .kind = RewriteRequest::Kind::kChangeForm,
                     .range = {},
                     .key_form = key_form},
                    rotator);
}

}  // namespace kvd
