#include "engine/saved_state/describe_model.h"

#include "base/check.h"
#include "engine/forward/pass/cache_planes.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_format.h"

namespace kvd {
namespace {

StateShape ShapeOf(const ModelConfig& config) {
  const SsmConfig& ssm = config.ssm;
  const std::size_t embedding = config.embedding_size;
  const StateKind kind = config.format == nullptr ? StateKind::kNone : config.format->state_kind;
  switch (kind) {
    case StateKind::kNone: return {};
    case StateKind::kMamba:
      return {.kept = ssm.conv_width - 1,
              .channels = ssm.inner_size,
              .scan_floats = std::size_t{ssm.inner_size} * ssm.state_size};
    case StateKind::kMamba2:
      return {.kept = ssm.conv_width - 1,
              .channels = ssm.convolved_channels(),
              .scan_floats = std::size_t{ssm.inner_size} * ssm.state_size};
    case StateKind::kRwkv6:
    case StateKind::kRwkv7:
      return {.kept = 1,
              .channels = 2 * embedding,
              .scan_floats = embedding * config.rwkv.head_size,
              .matrix_side = kind == StateKind::kRwkv7 ? config.rwkv.head_size : 0u};
    case StateKind::kDeltaNet: {
      const DeltaNetConfig& net = config.delta_net;
      const std::size_t values = std::size_t{net.value_heads} * net.head_size;
      return {.kept = net.convolution_width - 1,
              .channels = 2 * std::size_t{net.key_heads} * net.head_size + values,
              .scan_floats = values * net.head_size,
              .matrix_side = net.head_size};
    }
    case StateKind::kShortConvolution:
      return {.kept = config.short_convolution_width - 1, .channels = embedding};
  }
  return {};
}

}  // namespace

std::vector<StateShape> StateShapesOf(const ModelConfig& config) {
  std::vector<StateShape> shapes;
  const std::vector<std::size_t> offsets = StateOffsets(config);
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    const std::size_t floats = StateFloatsOf(config, layer);
    if (floats == 0) continue;
    StateShape shape = ShapeOf(config);
    shape.layer = layer;
    shape.offset = offsets[layer];
    // The floats of the layer after the state are padding to a whole cache line.
    KVD_ASSERT(shape.floats() != 0 && shape.floats() <= floats && floats < shape.floats() + 16);
    shapes.push_back(shape);
  }
  return shapes;
}

StateModel DescribeModel(const Engine& engine) {
  const ModelConfig& config = engine.config();
  return {.fingerprint = engine.fingerprint().words,
          .architecture = std::string(config.architecture_name()),
          .numeric_form = static_cast<std::uint32_t>(engine.numeric_form()),
          .layer_count = config.layer_count,
          .vocab_size = config.vocab_size,
          .has_encoder = config.encoder.layer_count != 0 && !config.encoder.is_causal,
          .values_in_keys = config.values_in_keys(),
          .state_floats = engine.state_bytes() / sizeof(float),
          .planes = CachePlanesOf(config, engine.cell_layout()),
          .states = StateShapesOf(config)};
}

}  // namespace kvd
