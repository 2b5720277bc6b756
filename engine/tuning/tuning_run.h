// Which choices of products an engine uses and why, and the run that measures them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/compute/compute.h"
#include "engine/model/gguf_file.h"
#include "engine/tuning/choice_measuring.h"
#include "engine/tuning/matrix_timer.h"
#include "engine/tuning/tuning_file.h"
#include "kernels/product_choice.h"
#include "shm/choice_source.h"

namespace kvd {

// TuningState: which choices of products an engine uses, and why.
struct TuningState {
  TuningKey key;
  kernels::ProductChoices defaults;
  Tuning tuning;                         // in use
  std::vector<kernels::DataType> types;  // of the model's matrices
  ChoiceSource source = ChoiceSource::kDefaults;
  std::string why_ignored;  // not empty: there is a file, and why it is not used
};

// Reads the file in `directory` (-1: there is none) and decides which choices are used. `state` has
// the key and a source that is kDefaults, kOff or kDeterministic; with the latter two no file is
// read.
void ChooseTuning(int directory, const kernels::KernelTable& table, TuningState* state);

// TuningRun: one measuring of all choices with an engine's model, in slices.
//
// The engine thread runs the slices, between steps. The engine outlives the run.
class TuningRun {
 public:
  // The arguments are those of MatrixTimer and of ChoiceMeasuring.
  TuningRun(const Compute& compute, std::span<const GgufTensor> tensors,
            std::size_t in_features_max, bool reads_weights,
            const kernels::ProductChoices& defaults, std::uint32_t rows_max);
  TuningRun(const TuningRun&) = delete;
  TuningRun& operator=(const TuningRun&) = delete;

  bool done() const { return measuring_.done(); }
  // Times one alternative, for about a millisecond. REQUIRES: !done().
  void Slice() { measuring_.Slice(); }
  std::size_t slices_left() const { return measuring_.slices_left(); }
  // REQUIRES: done().
  Tuning Finish() const;

 private:
  MatrixTimer timer_;
  ChoiceMeasuring measuring_;
};

}  // namespace kvd
