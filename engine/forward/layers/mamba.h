// State-space mixers: Mamba (Gu and Dao 2023) and Mamba-2 (Dao and Gu 2024).
//
// The state of a sequence in a layer is the state of the convolution (the convolution's last
// inputs) followed by the state of the scan. Tokens are scanned one by one in order, so prefill
// chunks of any size give the same bits.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/recurrent_weights.h"

namespace kvd {

// Floats of a layer's state, a multiple of 16.
std::size_t MambaStateFloats(const SsmConfig& ssm);
std::size_t Mamba2StateFloats(const SsmConfig& ssm);

// stream += residual_scale * Out(Scan(silu(Convolution(x))) * silu(z)), with x, z = In(input).
//   h_t = exp(dt A) h_{t-1} + dt B x_t,  y_t = C h_t + D x_t,  dt = softplus(...)
// RunMamba scans each channel separately. A depends on channel and state index; B, C and dt are
// computed from x.
void RunMamba(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
              const RowBuffer& input);
// Mamba-2 computes as RunMamba, but scans each head, with one A per head, and RMS-norms y by groups
// of channels after the multiplication by silu(z).
void RunMamba2(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
               const RowBuffer& input);

}  // namespace kvd
