// What the architectures with state-space layers share: their numbers and tensors.
#pragma once

#include <cstddef>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/recurrent_weights.h"

namespace kvd {

// The numbers and tensors of state-space layers, which mamba, mamba2 and models with attention and
// state-space layers share.
enum class MambaKind : std::uint8_t { kFirst, kSecond };

// Reads config.ssm. Errors: as ReadModelConfig; for Mamba-2 also kCorrupt (the number of heads does
// not divide inner_size, or the number of groups does not divide the number of heads).
Status ReadSsm(const ConfigReader& reader, MambaKind kind, ModelConfig& config);

// Whether dt, B and C are RMS-normed (jamba, falcon-mamba).
enum class MambaNorms : std::uint8_t { kNone, kRequired };

// Visits ssm_*, and attn_norm in VisitMamba or if `has_norm` is set.
Status VisitMamba(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                  MambaNorms norms, MambaWeights& weights);
Status VisitMamba2(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                   bool has_norm, MambaWeights& weights);

}  // namespace kvd
