#include "engine/saved_state/llama_states.h"

#include <algorithm>

#include "engine/architectures/architecture.h"
#include "engine/forward_pass.h"
#include "shm/check.h"

namespace kvd {
namespace {

LlamaStateShape ShapeOf(const ModelConfig& config) {
  const SsmConfig& ssm = config.ssm;
  const std::size_t embedding = config.embedding_size;
  switch (config.architecture) {
    case Architecture::kMamba:
    case Architecture::kJamba:
      return {.kept = ssm.conv_width - 1,
              .channels = ssm.inner_size,
              .scan_floats = std::size_t{ssm.inner_size} * ssm.state_size};
    case Architecture::kMamba2:
    case Architecture::kGraniteHybrid:
    case Architecture::kFalconH1:
      return {.kept = ssm.conv_width - 1,
              .channels = ssm.convolved_channels(),
              .scan_floats = std::size_t{ssm.inner_size} * ssm.state_size};
    case Architecture::kRwkv6:
    case Architecture::kRwkv7:
      return {
          .kept = 1,
          .channels = 2 * embedding,
          .scan_floats = embedding * config.rwkv.head_size,
          .matrix_side = config.architecture == Architecture::kRwkv7 ? config.rwkv.head_size : 0u};
    case Architecture::kQwen35: {
      const DeltaNetConfig& net = config.delta_net;
      const std::size_t values = std::size_t{net.value_heads} * net.head_size;
      return {.kept = net.convolution_width - 1,
              .channels = 2 * std::size_t{net.key_heads} * net.head_size + values,
              .scan_floats = values * net.head_size,
              .matrix_side = net.head_size};
    }
    case Architecture::kLfm2:
      return {.kept = config.short_convolution_width - 1, .channels = embedding};
    default: return {};
  }
}

// to[column][row] = from[row][column]
void Turn(const float* from, std::size_t rows, std::size_t columns, float* to) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
}

void CopyScan(const LlamaStateShape& shape, const float* from, float* to) {
  const std::size_t side = shape.matrix_side;
  if (side == 0) {
    std::copy_n(from, shape.scan_floats, to);
    return;
  }
  for (std::size_t at = 0; at < shape.scan_floats; at += side * side) {
    Turn(from + at, side, side, to + at);
  }
}

}  // namespace

std::vector<LlamaStateShape> LlamaStateShapesOf(const ModelConfig& config) {
  const auto state_floats = DefinitionOf(config.architecture).state_floats;
  std::vector<LlamaStateShape> shapes;
  if (state_floats == nullptr) return shapes;
  const std::vector<std::size_t> offsets = StateOffsets(config);
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    const std::size_t floats = state_floats(config, layer);
    if (floats == 0) continue;
    LlamaStateShape shape = ShapeOf(config);
    shape.layer = layer;
    shape.offset = offsets[layer];
    // What is above is padding to a cache line.
    KVD_ASSERT(shape.floats() != 0 && shape.floats() <= floats && floats < shape.floats() + 16);
    shapes.push_back(shape);
  }
  return shapes;
}

void StateToLlamaR(const LlamaStateShape& shape, std::span<const float> state, std::span<float> r) {
  KVD_ASSERT(state.size() == shape.floats() && r.size() == shape.r_floats());
  Turn(state.data(), shape.kept, shape.channels, r.data());
}

void StateToLlamaS(const LlamaStateShape& shape, std::span<const float> state, std::span<float> s) {
  KVD_ASSERT(state.size() == shape.floats() && s.size() == shape.s_floats());
  CopyScan(shape, state.data() + shape.r_floats(), s.data());
}

void StateFromLlama(const LlamaStateShape& shape, std::span<const float> r,
                    std::span<const float> s, std::span<float> state) {
  KVD_ASSERT(state.size() == shape.floats() && r.size() == shape.r_floats() &&
             s.size() == shape.s_floats());
  Turn(r.data(), shape.channels, shape.kept, state.data());
  CopyScan(shape, s.data(), state.data() + shape.r_floats());
}

}  // namespace kvd
