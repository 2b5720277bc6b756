// Decoder: the forward pass of one ubatch: token embeddings, the architecture's layers, and logits,
// which are written to addresses that the caller gives.
//
// Owned by the engine and called by the engine thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

struct ArchitectureDefinition;

class Decoder {
 public:
  // The arguments must outlive the Decoder.
  Decoder(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
          std::size_t row_count_max, StepProfile* profile);

  // REQUIRES: items.size() == plan.count; the sequences of the plan together have at most
  // row_count_max rows.
  void Run(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items);

  const ModelRopes& ropes() const { return pass_.ropes(); }
  const Compute& compute() const { return pass_.compute(); }
  // Changes the choices of products for the following steps.
  void UseChoices(const kernels::ProductChoices& choices) { pass_.UseChoices(choices); }

 private:
  void Embed();
  void Logits();

  const ArchitectureDefinition& architecture_;
  ForwardPass pass_;
  std::vector<const float*> logits_input_;  // rows of the stream whose logits are requested
  std::vector<float*> logits_output_;
};

}  // namespace kvd
