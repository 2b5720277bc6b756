// The forward pass of one ubatch: token embeddings, the architecture's layers, logits to where the
// caller wants them.
//
// Owned by the engine, called by its thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/forward_pass.h"

namespace kvd {

struct ArchitectureDefinition;

class Forward {
 public:
  // The arguments outlive the object.
  Forward(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
          std::size_t row_count_max, StepProfile* profile);

  // items.size() == plan.count; the rows of all sequences together are at most row_count_max.
  void Run(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items);

  const ModelRopes& ropes() const { return pass_.ropes(); }

 private:
  void Embed();
  void Logits();

  const ArchitectureDefinition& architecture_;
  ForwardPass pass_;
  std::vector<const float*> logits_input_;  // rows of the stream whose logits are wanted
  std::vector<float*> logits_output_;
};

}  // namespace kvd
