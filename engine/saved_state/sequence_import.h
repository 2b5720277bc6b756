// SequenceImport: restores the content of a sequence from outside the pool into fresh cells.
//
// Begin reserves cells and slots. The caller then feeds rows, states and logits in any order, also
// by several threads if the threads feed different cells. Commit gives the whole content to the
// sequence in one commit, if all announced content was fed. Destroying an import that is not
// committed leaves the sequence unchanged. An import refuses numbers that are not finite. Other
// sequences can be computed and edited during an import. The engine must outlive the import.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/forward/pass/cache_planes.h"
#include "engine/memory/memory.h"

namespace kvd {

struct ImportRequest {
  SequenceHandle handle = SequenceHandle::kNone;  // an empty sequence
  std::span<const TokenId> tokens{};              // ids of the model's vocabulary
  std::span<const Pos> positions{};               // of the tokens: 0 or above, not descending
  std::span<const TokenId> cross_tokens{};        // tokens of the encoded text; may be empty
  // Number of leading cells that are exactly as this model computes them.
  std::uint32_t pristine_cells = 0;
  // By plane of planes(): the first cell that will be fed; empty: 0 for all planes. For layers
  // without a window, all cells must be fed, so the first cell is 0.
  std::span<const std::uint32_t> first_cells{};
  bool has_state = false;                             // the state after the last cell will be fed
  std::span<const std::uint32_t> checkpoint_cells{};  // ascending, from 1 to tokens.size()
  bool has_logits = false;
};

class SequenceImport {
 public:
  // Errors: those of Restores::Begin; kInvalidArgument (a token outside the vocabulary, first_cells
  // for another number of planes); kWindowLost (first_cells above 0 for a layer that keeps all
  // cells).
  static Result<std::unique_ptr<SequenceImport>> Begin(Engine& engine,
                                                       const ImportRequest& request);
  SequenceImport(const SequenceImport&) = delete;
  SequenceImport& operator=(const SequenceImport&) = delete;

  std::span<const CachePlane> planes() const { return planes_; }
  // Feeds the rows of the cells [begin, end). Each cell of a plane is fed once. Cells that the next
  // token does not reach are ignored. Errors: kUnsupported (CheckRowType), kNumerical (a value is
  // not finite in `type` or in the pool's type). REQUIRES: begin <= end <= cells of the plane.
  Status FeedRows(std::size_t plane, std::uint32_t begin, std::uint32_t end, kernels::DataType type,
                  RowPlacement placement, const std::byte* rows);
  // Feeds floats [first, first + floats.size()) of the state after cell_count cells; cell_count is
  // the number of all cells or that of an announced checkpoint. A checkpoint for which there is no
  // slot is ignored. Errors: kNumerical, kInvalidArgument (no such state was announced, or floats
  // beyond the end of the state).
  Status FeedState(std::uint32_t cell_count, std::size_t first, std::span<const float> floats);
  Status FeedLogits(std::size_t first, std::span<const float> floats);

  // Gives the content to the sequence. Errors: kInvalidArgument (announced cells or floats were not
  // fed), kConflict, kNoSpace. On error nothing has changed and the import has ended.
  Status Commit();

 private:
  SequenceImport(Engine& engine, std::uint32_t cell_count);
  Status CheckComplete() const;
  // Feeds part of a state or of a row of logits.
  Status FeedFloats(const char* what, std::byte* destination, std::size_t float_count,
                    std::size_t first, std::span<const float> floats);
  // Stores rows of adjacent cells in one block.
  Status PutRows(const CachePlane& plane, std::byte* block, std::uint32_t cell, std::uint32_t count,
                 kernels::DataType type, RowPlacement placement, const std::byte* rows) const;

  Engine& engine_;
  const std::uint32_t cell_count_;
  Restore restore_;
  std::vector<CachePlane> planes_;
  // By plane: number of fed cells, counting only cells that are kept.
  std::vector<std::atomic<std::uint64_t>> cells_fed_;
  std::vector<std::uint32_t> checkpoint_cells_;  // of all announced checkpoints, kept or not
  // Number of fed floats of states and logits that are kept.
  std::atomic<std::uint64_t> floats_fed_{0};
  bool has_state_ = false;
  bool has_logits_ = false;
};

}  // namespace kvd
