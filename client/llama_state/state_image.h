// StateImage: bytes of the form of saved states that the daemon has exported, by sequence and
// plane.
//
// All of it is checked when it is opened: structure, sums, and that every row and state is the
// model's. An outline (StateParts) has no rows, states and logits; what it would have is known.
// Model and bytes outlive it; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "state_form/section_plan.h"
#include "state_form/state_model.h"
#include "state_form/state_table.h"

namespace kvd {

class StateImage {
 public:
  // Sections of one run of numbers: [begin, end) of rows, states or logits.
  struct Run {
    std::uint32_t begin = 0;  // first cell, or float, that is there
    std::vector<std::size_t> sections;
  };
  struct Sequence {
    std::uint32_t cell_count = 0;
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    bool has_encoded_text = false;
    std::vector<Run> rows;  // by plane of the model; begin == cell_count: the plane has none
    Run state;              // behind the last cell; no sections: none
    Run logits;
    std::uint64_t logits_floats = 0;  // 0: none
  };

  // Errors: kCorrupt, naming the field; kVersionMismatch; kConflict (of another model).
  static Result<StateImage> Open(const StateModel& model, std::span<const std::byte> bytes,
                                 StateParts parts);

  const std::vector<Sequence>& sequences() const { return sequences_; }
  // Of keys or values in this state.
  kernels::DataType type_of(const CachePlane& plane) const {
    return plane.side == CacheSide::kKeys ? k_type_ : v_type_;
  }
  // Rows of the cells [begin, end) of a plane, [cell][head][dim] of type_of. REQUIRES: not an
  // outline; rows[plane].begin <= begin <= end <= cell_count.
  void ReadRows(const Sequence& sequence, std::size_t plane, std::uint32_t begin, std::uint32_t end,
                std::byte* rows) const;
  // Floats [first, first + floats.size()). REQUIRES: not an outline; they are there.
  void ReadFloats(const Run& run, std::size_t first, std::span<float> floats) const;

 private:
  explicit StateImage(const StateModel& model) : model_(&model) {}
  Status PlaceSections(std::span<const std::byte> bytes, StateParts parts);
  Status AddSequence(const SavedSequence& saved);
  Status AddSection(std::size_t number, const state_file::SequenceHeader& header,
                    Sequence* sequence);
  Status AddRows(std::size_t number, Sequence* sequence) const;

  const StateModel* model_;
  kernels::DataType k_type_ = kernels::DataType::kF16;
  kernels::DataType v_type_ = kernels::DataType::kF16;
  std::vector<state_file::SectionEntry> sections_;
  std::vector<std::span<const std::byte>> section_bytes_;  // by section; empty: left out
  std::vector<Sequence> sequences_;
};

}  // namespace kvd
