#include "engine/forward/layers/parallel_experts.h"

#include <cmath>

#include "engine/forward/compute/step_profile.h"
#include "engine/forward/layers/experts.h"

namespace kvd {

void RunFeedForwardAndExperts(ForwardPass& pass, const LayerWeights& weights,
                              Activation activation) {
  const std::size_t width = pass.config().embedding_size;
  const float epsilon = pass.config().rms_epsilon;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const FeedForwardWeights& dense = weights.feed_forward;
  const ParallelExpertNorms& norms = weights.parallel_experts;

  const RowBuffer& dense_rows = pass.Rows(Scratch::kProjected, {width});
  {
    const StepProfile::Scope scope(pass.compute().profile, StepPhase::kFeedForward);
    pass.Project(dense.down, HiddenRows(pass, dense, activation, pass.NormedStream(dense.norm)),
                 dense_rows);
  }
  const RowBuffer& router_rows = pass.Rows(Scratch::kMixerOutput, {width});
  const float factor = 1.0f / std::sqrt(static_cast<float>(width));
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* const x = router_rows[row];
      kernels.rms_norm(pass.stream()[row], norms.router_norm, width, epsilon, x);
      kernels.scale(x, factor, width, x);
    }
  });
  const RowBuffer& sum =
      RunExperts(pass, weights.experts, activation, router_rows, pass.NormedStream(norms.norm));
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* const from_dense = dense_rows[row];
      kernels.rms_norm(sum[row], norms.post_norm, width, epsilon, sum[row]);
      kernels.rms_norm(from_dense, norms.feed_forward_norm, width, epsilon, from_dense);
      kernels.add(from_dense, sum[row], width, sum[row]);
    }
  });
  pass.AddRowsToStream(sum, dense.post_norm);
}

}  // namespace kvd
