// The types whose elements are looked up in a grid of points (iq2_xxs, iq2_xs, iq2_s, iq3_xxs,
// iq3_s): their grids, and a block in a form that all of them share.
//
// Plain code unpacks the blocks of the grid types for every instruction set. Products are then
// computed as for the other types with an integer scale for each half block.
//
// Files with special -m flags include this header and use only GridBlock and UnpackGridBlock.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/data_type.h"

namespace kvd::kernels {

// A grid of points of kElements levels each, one byte per element, the first in the lowest byte.
extern const std::array<std::uint64_t, 256> kIQ2_XXSGrid;
extern const std::array<std::uint64_t, 512> kIQ2_XSGrid;
extern const std::array<std::uint64_t, 1024> kIQ2_SGrid;
extern const std::array<std::uint32_t, 256> kIQ3_XXSGrid;
extern const std::array<std::uint32_t, 512> kIQ3_SGrid;

// The magnitudes of an element, by level.
inline constexpr std::uint8_t kIQ2Levels[3] = {8, 25, 43};
inline constexpr std::uint8_t kIQ3_XXSLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::uint8_t kIQ3_SLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

// 256 elements; element j is (scale * half_scales[j / 16]) * q[j], exact in f32.
struct GridBlock {
  alignas(64) std::int8_t q[256];
  std::int8_t half_scales[16];  // odd, 1 to 31
  float scale;                  // d / 8 for iq2 types, d / 4 for iq3_xxs, d for iq3_s
};

[[gnu::always_inline]] constexpr bool IsGridType(DataType type) {
  return type == DataType::kIQ2_XXS || type == DataType::kIQ2_XS || type == DataType::kIQ2_S ||
         type == DataType::kIQ3_XXS || type == DataType::kIQ3_S;
}

// Unpacks one block. REQUIRES: IsGridType(type).
void UnpackGridBlock(DataType type, const void* block, GridBlock* to);

}  // namespace kvd::kernels
