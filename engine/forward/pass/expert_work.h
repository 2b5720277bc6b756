// ExpertWork: memory for the rows of a ubatch on their way through the experts.
//
// Owned by ForwardPass and sized once for the largest ubatch. A slot is one row at one expert that
// the row's token chose; the slots of an expert are adjacent, in the order of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/forward/compute/float_buffer.h"
#include "engine/forward/compute/linear.h"
#include "engine/forward/pass/row_buffer.h"
#include "engine/model/expert_config.h"
#include "engine/model/weight_view.h"

namespace kvd {

struct ChosenExpert {
  std::uint32_t expert = 0;
  float weight = 0.0f;
};

struct ExpertWork {
  ExpertWork() = default;
  ExpertWork(const ExpertConfig& config, std::size_t row_count_max);

  std::vector<ChosenExpert> chosen;      // [rows, used]
  std::vector<std::uint32_t> slots;      // [rows, used]: the slot of each choice
  std::vector<std::uint32_t> slot_rows;  // [slots]: the row of each slot
  std::vector<std::uint32_t> starts;     // [count + 1]: first slot of each expert; then the end
  RowBuffer gate;                        // [slots, size]
  RowBuffer up;                          // [slots, size]
  RowBuffer results;                     // [slots, input_size]
  FloatBuffer inputs;                    // prepared or gathered inputs of all slots
  // The products that are computed together; at most two for each expert.
  std::vector<LinearView> views;
  std::vector<LinearJob> jobs;
  std::vector<ReadyJob> ready;
};

}  // namespace kvd
