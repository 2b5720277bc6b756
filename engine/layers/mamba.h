// State-space mixers: Mamba (Gu and Dao 2023) and Mamba-2 (Dao and Gu 2024).
//
// The state of a sequence is the convolution's (its last inputs) and the scan's, one after the
// other. Tokens are scanned one by one in order, so chunks of any size give the same bits.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/mamba_weights.h"

namespace kvd {

// Floats of a layer's state, a multiple of 16.
std::size_t MambaStateFloats(const SsmConfig& ssm);
std::size_t Mamba2StateFloats(const SsmConfig& ssm);

// stream += residual_scale * Out(Scan(silu(Convolution(x))) * silu(z)) with x, z = In(input).
//   h_t = exp(dt A) h_{t-1} + dt B x_t,  y_t = C h_t + D x_t,  dt = softplus(...)
// per channel; A differs by channel and state, B, C and dt follow from x.
void RunMamba(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
              const RowBuffer& input);
// The same per head, with one A for all of a head; y is RMS-normed by groups behind the gate.
void RunMamba2(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
               const RowBuffer& input);

}  // namespace kvd
