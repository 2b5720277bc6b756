// SequenceExport: the content of one sequence, as it was when the export was opened, in a form that
// depends neither on blocks nor on shifts: keys are as if they had been computed at the cells'
// effective positions.
//
// The sequence may be decoded, edited or dropped meanwhile: a hold keeps what is read. Threads: Open
// any; the rest is const and may be called by several threads at once. The engine outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/memory/memory.h"
#include "engine/saved_state/cache_planes.h"

namespace kvd {

class SequenceExport {
 public:
  // Error: kNotFound.
  static Result<SequenceExport> Open(Engine& engine, SequenceHandle handle);
  // The same without a hold yet: for whoever reads a little now and then, each time between Resume
  // and Pause. While it is paused it stands in nobody's way, and the sequence may change or go.
  static Result<SequenceExport> OpenPaused(Engine& engine, SequenceHandle handle);
  SequenceExport(SequenceExport&& other) noexcept;
  SequenceExport& operator=(SequenceExport&&) = delete;
  ~SequenceExport();

  // Error: kConflict (the sequence is not what it was when the export was opened).
  Status Resume();
  void Pause();

  const SequenceInfo& info() const { return hold_.info; }
  std::uint32_t cell_count() const { return hold_.info.cell_count; }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const Pos> positions() const { return positions_; }  // effective
  std::span<const TokenId> cross_tokens() const { return cross_tokens_; }

  std::span<const CachePlane> planes() const { return planes_; }
  // The cells of the plane are [first_cell, end_cell) by ordinal: those before are out of a window.
  std::uint32_t first_cell(const CachePlane& plane) const {
    return hold_.parts[plane.group].first_cell;
  }
  std::uint32_t end_cell(const CachePlane& plane) const {
    return hold_.parts[plane.group].cell_count;
  }
  // Rows of the cells [begin, end) as elements of `type`. Errors: kUnsupported (CheckRowType);
  // kNumerical (a key is not finite once it is rotated, or in that type). REQUIRES: first_cell <=
  // begin <= end <= end_cell.
  Status ReadRows(const CachePlane& plane, std::uint32_t begin, std::uint32_t end,
                  kernels::DataType type, RowPlacement placement, std::byte* rows) const;

  // Recurrent state behind the last cell, all layers, as in the pool; empty: the model has none, or
  // the sequence is empty.
  std::span<const float> state() const;
  // States behind fewer cells; one behind all of them is the state itself.
  std::span<const layout::Checkpoint> checkpoints() const { return hold_.checkpoints; }
  std::span<const float> checkpoint_state(const layout::Checkpoint& checkpoint) const;
  // Row of logits of the last token; empty: none is kept.
  std::span<const float> logits() const;

 private:
  SequenceExport(Engine& engine, SequenceHold hold);
  // Rows of cells that lie side by side in one block, as they are.
  void CopyRows(const CachePlane& plane, const std::byte* block, std::uint32_t cell,
                std::uint32_t count, RowPlacement placement, std::byte* rows) const;
  // The same for keys that are stored for another position.
  Status RotateRows(const CachePlane& plane, const layout::Extent& extent, std::uint32_t cell,
                    std::uint32_t count, kernels::DataType type, RowPlacement placement,
                    std::byte* rows) const;
  Status ConvertRows(const CachePlane& plane, const std::byte* block, std::uint32_t cell,
                     std::uint32_t count, kernels::DataType type, RowPlacement placement,
                     std::byte* rows) const;

  Engine* engine_;
  SequenceHold hold_;  // while paused, what it was
  std::vector<CachePlane> planes_;
  std::vector<TokenId> tokens_;
  std::vector<Pos> positions_;
  std::vector<TokenId> cross_tokens_;
  std::uint32_t key_form_ = 0;        // of the keys as they are read
  bool repeats_llama_shift_ = false;  // docs/decisions/0005
};

}  // namespace kvd
