// Copies a sequence by exporting and importing it, like a save and a restore.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "engine/saved_state/sequence_export.h"
#include "engine/saved_state/sequence_import.h"

namespace kvd::test {

struct CopyOptions {
  std::optional<kernels::DataType> type{};  // type of the exported rows; unset: that of the source
  bool cell_major = false;                  // exported rows are [cell][head][dim]
  std::uint32_t cells_at_once = 7;
  bool with_logits = true;
};

// Exports `from` and feeds it to an import into `handle`. Does not commit the import.
inline Result<std::unique_ptr<SequenceImport>> BeginCopy(const SequenceExport& from, Engine& to,
                                                         SequenceHandle handle,
                                                         const CopyOptions& options = {}) {
  std::vector<std::uint32_t> first_cells, checkpoints;
  for (const CachePlane& plane : from.planes()) first_cells.push_back(from.first_cell(plane));
  for (const auto& checkpoint : from.checkpoints()) checkpoints.push_back(checkpoint.cell_count);
  KVD_TRY(std::unique_ptr<SequenceImport> import,
          SequenceImport::Begin(to, {.handle = handle,
                                     .tokens = from.tokens(),
                                     .positions = from.positions(),
                                     .cross_tokens = from.cross_tokens(),
                                     .pristine_cells = from.info().pristine_cells,
                                     .first_cells = first_cells,
                                     .has_state = !from.state().empty(),
                                     .checkpoint_cells = checkpoints,
                                     .has_logits = options.with_logits && !from.logits().empty()}));
  // Planes may be fed in any order; this function feeds the last plane first.
  for (std::size_t p = from.planes().size(); p-- > 0;) {
    const CachePlane& plane = from.planes()[p];
    const kernels::DataType type = options.type.value_or(plane.type);
    for (std::uint32_t at = from.first_cell(plane); at < from.end_cell(plane);) {
      const std::uint32_t end = std::min(at + options.cells_at_once, from.end_cell(plane));
      const RowPlacement placement =
          options.cell_major ? CellMajor(plane, type) : HeadMajor(plane, type, end - at);
      std::vector<std::byte> rows((end - at) * plane.cell_bytes(type));
      KVD_CHECK_OK(from.ReadRows(plane, at, end, type, placement, rows.data()));
      KVD_CHECK_OK(import->FeedRows(p, at, end, type, placement, rows.data()));
      at = end;
    }
  }
  for (const auto& checkpoint : from.checkpoints()) {
    if (checkpoint.cell_count == from.cell_count()) continue;
    KVD_CHECK_OK(import->FeedState(checkpoint.cell_count, 0, from.checkpoint_state(checkpoint)));
  }
  if (!from.state().empty()) {
    const std::size_t half = from.state().size() / 2;
    KVD_CHECK_OK(import->FeedState(from.cell_count(), half, from.state().subspan(half)));
    KVD_CHECK_OK(import->FeedState(from.cell_count(), 0, from.state().first(half)));
  }
  if (options.with_logits && !from.logits().empty()) {
    KVD_CHECK_OK(import->FeedLogits(0, from.logits()));
  }
  return import;
}

inline Result<SequenceHandle> CopySequence(Engine& source, SequenceHandle handle, Engine& to,
                                           const CopyOptions& options = {}) {
  KVD_TRY(const SequenceExport from, SequenceExport::Open(source, handle));
  KVD_TRY(const SequenceHandle copy, to.memory().sequences().Create({}));
  KVD_TRY(std::unique_ptr<SequenceImport> import, BeginCopy(from, to, copy, options));
  KVD_CHECK_OK(import->Commit());
  return copy;
}

}  // namespace kvd::test
