#include "engine/tuning/tuning_run.h"

#include "base/clock.h"

namespace kvd {

TuningRun::TuningRun(const Compute& compute, std::span<const GgufTensor> tensors,
                     std::size_t in_features_max, bool reads_weights,
                     const kernels::ProductChoices& defaults, std::uint32_t rows_max)
    : timer_(compute, tensors, in_features_max, reads_weights),
      measuring_(*compute.kernels, timer_.types(), defaults, rows_max, timer_) {}

Tuning TuningRun::Finish() const {
  return {
      .measured_unix_ms = NowUnixMs(), .types = measuring_.types(), .choices = measuring_.Choose()};
}

}  // namespace kvd
