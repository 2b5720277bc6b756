#include "engine/forward/pass/cache_planes.h"

#include <cstring>

#include "kernels/quant_blocks.h"

namespace kvd {

namespace {

// Returns the window of a layer. Layers from layer_count on are cross-attention layers, which have
// no window.
std::uint32_t WindowOf(const ModelConfig& config, std::uint32_t layer) {
  return layer < config.window.size() ? config.window[layer] : 0;
}

}  // namespace

std::vector<CachePlane> CachePlanesOf(const ModelConfig& config, const CellLayout& cells) {
  std::vector<CachePlane> planes;
  for (std::uint32_t layer = 0; layer < cells.layers.size(); ++layer) {
    const LayerLayout& at = cells.layers[layer];
    if (at.kv_head_count == 0) continue;
    planes.push_back({.layer = layer,
                      .side = CacheSide::kKeys,
                      .group = cells.groups[layer],
                      .head_count = at.kv_head_count,
                      .dim = config.key_dim(layer),
                      .window = WindowOf(config, layer),
                      .type = cells.k_type});
    if (at.values_in_keys) continue;
    planes.push_back({.layer = layer,
                      .side = CacheSide::kValues,
                      .group = cells.groups[layer],
                      .head_count = at.kv_head_count,
                      .dim = config.value_dim(layer),
                      .window = WindowOf(config, layer),
                      .type = cells.v_type});
  }
  return planes;
}

RowPlacement HeadMajor(const CachePlane& plane, kernels::DataType type, std::size_t cell_count) {
  return {.head_stride_bytes = cell_count * plane.row_bytes(type),
          .cell_stride_bytes = plane.row_bytes(type)};
}

RowPlacement CellMajor(const CachePlane& plane, kernels::DataType type) {
  return {.head_stride_bytes = plane.row_bytes(type), .cell_stride_bytes = plane.cell_bytes(type)};
}

namespace {

// The loops of AllFinite16 have no branches, so that the compiler vectorises the loops.
bool AllFinite16(const std::byte* elements, std::size_t count, std::uint16_t exponent_mask) {
  std::uint16_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    found = static_cast<std::uint16_t>(
        found | static_cast<std::uint16_t>((bits & exponent_mask) == exponent_mask));
  }
  return found == 0;
}

bool AllFinite32(const std::byte* elements, std::size_t count) {
  constexpr std::uint32_t kExponentMask = 0x7f800000u;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    found |= static_cast<std::uint32_t>((bits & kExponentMask) == kExponentMask);
  }
  return found == 0;
}

}  // namespace

bool AllFinite(kernels::DataType type, const std::byte* elements, std::size_t element_count) {
  constexpr std::uint16_t kF16Exponent = 0x7c00;
  constexpr std::uint16_t kBF16Exponent = 0x7f80;
  switch (type) {
    case kernels::DataType::kF32: return AllFinite32(elements, element_count);
    case kernels::DataType::kF16: return AllFinite16(elements, element_count, kF16Exponent);
    case kernels::DataType::kBF16: return AllFinite16(elements, element_count, kBF16Exponent);
    case kernels::DataType::kQ8_0:
    case kernels::DataType::kQ4_0: {
      // A quantised block starts with the block's scale in f16.
      const std::size_t block_bytes = kernels::BytesPerBlock(type);
      const std::size_t blocks = element_count / kernels::ElementsPerBlock(type);
      bool is_finite = true;
      for (std::size_t block = 0; block < blocks; ++block) {
        is_finite &= AllFinite16(elements + block * block_bytes, 1, kF16Exponent);
      }
      return is_finite;
    }
    default: return false;
  }
}

}  // namespace kvd
