// SequenceImport: brings the content of a sequence back from elsewhere, into fresh cells.
//
// Begin reserves; rows, states and logits are then fed in any order, by several threads if they
// feed different cells; Commit gives all of it to the sequence at once, if nothing is missing.
// Destroyed without that, nothing has changed. Numbers that are not finite are refused. Other
// sequences are computed, and edited, meanwhile. The engine outlives it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/memory/memory.h"
#include "engine/saved_state/cache_planes.h"

namespace kvd {

struct ImportRequest {
  SequenceHandle handle = SequenceHandle::kNone;  // an empty sequence
  std::span<const TokenId> tokens{};              // ids of the model's vocabulary
  std::span<const Pos> positions{};         // of the tokens, from 0, none below the one before
  std::span<const TokenId> cross_tokens{};  // of an encoded text
  std::uint32_t pristine_cells = 0;         // leading ones that are as this model computes them
  // By plane of planes(): the first cell that will be fed; empty: 0 for all. Planes of layers
  // without a window need all cells.
  std::span<const std::uint32_t> first_cells{};
  bool has_state = false;                             // the state behind the last cell will be fed
  std::span<const std::uint32_t> checkpoint_cells{};  // ascending, from 1 to tokens.size()
  bool has_logits = false;
};

class SequenceImport {
 public:
  // Errors: those of Restores::Begin; kInvalidArgument (a token that the vocabulary does not
  // have, first_cells of another model).
  static Result<std::unique_ptr<SequenceImport>> Begin(Engine& engine,
                                                       const ImportRequest& request);
  SequenceImport(const SequenceImport&) = delete;
  SequenceImport& operator=(const SequenceImport&) = delete;

  std::span<const CachePlane> planes() const { return planes_; }
  // Rows of the cells [begin, end), each cell of a plane once. Those that no next token reaches are
  // left out. Errors: kUnsupported (CheckRowType), kNumerical (not finite, in this type or in the
  // pool's). REQUIRES: begin <= end <= cells of the plane.
  Status FeedRows(std::size_t plane, std::uint32_t begin, std::uint32_t end, kernels::DataType type,
                  RowPlacement placement, const std::byte* rows);
  // Floats [first, first + floats.size()) of the state behind cell_count cells: all tokens, or those
  // of a checkpoint. One for which there is no room is left out. Errors: kNumerical,
  // kInvalidArgument (no such state, or floats behind its end).
  Status FeedState(std::uint32_t cell_count, std::size_t first, std::span<const float> floats);
  Status FeedLogits(std::size_t first, std::span<const float> floats);

  // Errors: kInvalidArgument (something was not fed), kConflict, kNoSpace: nothing has changed then,
  // and the import is over.
  Status Commit();

 private:
  SequenceImport(Engine& engine, std::uint32_t cell_count);
  Status CheckComplete() const;
  // Feeds part of a row of floats in the pool.
  Status FeedFloats(const char* what, std::byte* destination, std::size_t float_count,
                    std::size_t first, std::span<const float> floats);
  // Rows for cells that lie side by side in one block.
  Status PutRows(const CachePlane& plane, std::byte* block, std::uint32_t cell, std::uint32_t count,
                 kernels::DataType type, RowPlacement placement, const std::byte* rows) const;

  Engine& engine_;
  const std::uint32_t cell_count_;
  Restore restore_;
  std::vector<CachePlane> planes_;
  std::vector<std::atomic<std::uint64_t>> cells_fed_;  // by plane, of those that are kept
  std::vector<std::uint32_t> checkpoint_cells_;        // wanted, whether kept or not
  std::atomic<std::uint64_t> floats_fed_{0};           // of states and logits that are kept
  bool has_state_ = false;
  bool has_logits_ = false;
};

}  // namespace kvd
