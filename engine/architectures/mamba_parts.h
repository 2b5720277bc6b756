// What mamba, mamba2 and the hybrids with such layers share: their numbers and their tensors.
#pragma once

#include <cstddef>

#include "engine/architectures/architecture.h"
#include "engine/layers/mamba_weights.h"

namespace kvd {

enum class MambaKind : std::uint8_t { kFirst, kSecond };

// config.ssm. Errors: as ModelConfig's; of the second kind also kCorrupt where heads do not divide
// inner_size or groups do not divide heads.
Status ReadSsm(const ConfigReader& reader, MambaKind kind, ModelConfig& config);

// Whether dt, B and C are RMS-normed (jamba, falcon-mamba).
enum class MambaNorms : std::uint8_t { kNone, kRequired };

// attn_norm where `has_norm`, and ssm_*.
Status VisitMamba(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                  MambaNorms norms, MambaWeights& weights);
Status VisitMamba2(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                   bool has_norm, MambaWeights& weights);

}  // namespace kvd
