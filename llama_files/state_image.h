// StateImage: a saved state that the daemon has exported, held in memory and indexed by sequence
// and plane.
//
// Open checks the structure, the checksums, and that every row and state matches the model. An
// outline (StateContent) has the sizes of rows, states and logits, but not their bytes. The model
// and the bytes must outlive the StateImage. Any number of threads may use a StateImage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "state_layout/section_plan.h"
#include "state_layout/state_model.h"
#include "state_layout/state_table.h"

namespace kvd {

class StateImage {
 public:
  // The sections of a saved state that together hold one array of rows, states or logits.
  struct Run {
    // Index of the first cell (rows) or float (states, logits) that is present.
    std::uint32_t begin = 0;
    std::vector<std::size_t> sections;
  };
  struct Sequence {
    std::uint32_t cell_count = 0;
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    bool has_encoded_text = false;
    // The rows of each plane of the model, indexed by plane; a Run with begin == cell_count has no
    // rows.
    std::vector<Run> rows;
    // The recurrent state after the last cell; a Run without sections: the sequence has no state.
    Run state;
    Run logits;
    std::uint64_t logits_floats = 0;  // number of logits; 0: the sequence has no logits
  };

  // Errors: kCorrupt, naming the field; kVersionMismatch; kConflict (the state is of another
  // model).
  static Result<StateImage> Open(const StateModel& model, std::span<const std::byte> bytes,
                                 StateContent parts);

  const std::vector<Sequence>& sequences() const { return sequences_; }
  // Returns the type of the plane's rows (keys or values) in the saved state.
  kernels::DataType type_of(const CachePlane& plane) const {
    return plane.side == CacheSide::kKeys ? k_type_ : v_type_;
  }
  // Copies the rows of cells [begin, end) of a plane, [cell][head][dim] in type_of. REQUIRES: not
  // an outline; rows[plane].begin <= begin <= end <= cell_count.
  void ReadRows(const Sequence& sequence, std::size_t plane, std::uint32_t begin, std::uint32_t end,
                std::byte* rows) const;
  // Copies the floats [first, first + floats.size()) of a Run. REQUIRES: not an outline; the floats
  // are present.
  void ReadFloats(const Run& run, std::size_t first, std::span<float> floats) const;

 private:
  explicit StateImage(const StateModel& model) : model_(&model) {}
  Status PlaceSections(std::span<const std::byte> bytes, StateContent parts);
  Status AddSequence(const SavedSequence& saved);
  Status AddSection(std::size_t number, const state_file::SequenceHeader& header,
                    Sequence* sequence);
  Status AddRows(std::size_t number, Sequence* sequence) const;

  const StateModel* model_;
  kernels::DataType k_type_ = kernels::DataType::kF16;
  kernels::DataType v_type_ = kernels::DataType::kF16;
  std::vector<state_file::SectionEntry> sections_;
  // The bytes of each section, indexed by section number; empty: the section is not present.
  std::vector<std::span<const std::byte>> section_bytes_;
  std::vector<Sequence> sequences_;
};

}  // namespace kvd
