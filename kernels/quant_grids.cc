// The signs of eight elements are a byte, one bit for each. Types that store seven signs have an
// even number of negative elements: the eighth sign is the parity of the other seven.
#include "kernels/quant_grids.h"

#include <bit>
#include <cstring>

#include "kernels/half.h"
#include "kernels/quant_blocks.h"
#include "kernels/quant_grid_codes.h"

namespace kvd::kernels {
namespace {

template <class Point, std::size_t kCount>
constexpr std::array<Point, kCount> Expanded(const std::uint16_t (&codes)[kCount],
                                             const std::uint8_t* levels) {
  constexpr unsigned kBits = sizeof(Point) == 8 ? 2 : 3;
  std::array<Point, kCount> points = {};
  for (std::size_t p = 0; p < kCount; ++p) {
    for (unsigned i = 0; i < sizeof(Point); ++i) {
      const unsigned level = codes[p] >> (kBits * i) & ((1u << kBits) - 1u);
      points[p] |= Point{levels[level]} << (8 * i);
    }
  }
  return points;
}

// Returns the seven signs with their parity as the eighth sign.
unsigned EvenSigns(unsigned seven) {
  seven &= 127;
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7;
}

// Writes a point of a grid with the signs in the low bits of `signs`.
template <class Point>
void PutPoint(Point point, unsigned signs, std::int8_t* q) {
  for (std::size_t i = 0; i < sizeof(Point); ++i, point >>= 8) {
    const int magnitude = static_cast<int>(point & 255);
    q[i] = static_cast<std::int8_t>((signs >> i & 1) != 0 ? -magnitude : magnitude);
  }
}

std::int8_t Odd(unsigned scale) { return static_cast<std::int8_t>(2 * (scale & 15) + 1); }

template <class Block>
Block Read(const void* from) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

std::uint32_t Word(const std::uint8_t* from) { return Read<std::uint32_t>(from); }

void Unpack(const BlockIQ2_XXS& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.125f;
  for (std::size_t p = 0; p < 8; ++p) {
    const std::uint32_t word = Word(block.qs + 8 * p + 4);
    to->half_scales[2 * p] = to->half_scales[2 * p + 1] = Odd(word >> 28);
    for (std::size_t i = 0; i < 4; ++i) {
      PutPoint(kIQ2_XXSGrid[block.qs[8 * p + i]], EvenSigns(word >> (7 * i)),
               to->q + 32 * p + 8 * i);
    }
  }
}

void Unpack(const BlockIQ2_XS& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.125f;
  for (std::size_t i = 0; i < 32; ++i) {
    if (i % 2 == 0) to->half_scales[i / 2] = Odd(block.scales[i / 4] >> (i / 2 % 2 * 4));
    const unsigned bits = block.qs[i];
    PutPoint(kIQ2_XSGrid[bits & 511], EvenSigns(bits >> 9), to->q + 8 * i);
  }
}

void Unpack(const BlockIQ2_S& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.125f;
  for (std::size_t i = 0; i < 32; ++i) {
    if (i % 2 == 0) to->half_scales[i / 2] = Odd(block.scales[i / 4] >> (i / 2 % 2 * 4));
    const unsigned top = block.qh[i / 4] >> (i % 4 * 2) & 3;
    PutPoint(kIQ2_SGrid[block.qs[i] | top << 8], block.signs[i], to->q + 8 * i);
  }
}

void Unpack(const BlockIQ3_XXS& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.25f;
  for (std::size_t p = 0; p < 8; ++p) {
    const std::uint32_t word = Word(block.signs + 4 * p);
    to->half_scales[2 * p] = to->half_scales[2 * p + 1] = Odd(word >> 28);
    for (std::size_t i = 0; i < 8; ++i) {
      const unsigned signs = EvenSigns(word >> (i / 2 * 7)) >> (i % 2 * 4);
      PutPoint(kIQ3_XXSGrid[block.qs[8 * p + i]], signs, to->q + 32 * p + 4 * i);
    }
  }
}

void Unpack(const BlockIQ3_S& block, GridBlock* to) {
  to->scale = F32FromF16(block.d);
  for (std::size_t i = 0; i < 64; ++i) {
    if (i % 4 == 0) to->half_scales[i / 4] = Odd(block.scales[i / 16] >> (i / 8 % 2 * 4));
    const unsigned top = block.qh[i / 8] >> (i % 8) & 1u;
    const unsigned signs = static_cast<unsigned>(block.signs[i / 2]) >> (i % 2 * 4);
    PutPoint(kIQ3_SGrid[block.qs[i] | top << 8], signs, to->q + 4 * i);
  }
}

}  // namespace

constinit const std::array<std::uint64_t, 256> kIQ2_XXSGrid =
    Expanded<std::uint64_t>(kIQ2_XXSCodes, kIQ2Levels);
constinit const std::array<std::uint64_t, 512> kIQ2_XSGrid =
    Expanded<std::uint64_t>(kIQ2_XSCodes, kIQ2Levels);
constinit const std::array<std::uint64_t, 1024> kIQ2_SGrid =
    Expanded<std::uint64_t>(kIQ2_SCodes, kIQ2Levels);
constinit const std::array<std::uint32_t, 256> kIQ3_XXSGrid =
    Expanded<std::uint32_t>(kIQ3_XXSCodes, kIQ3_XXSLevels);
constinit const std::array<std::uint32_t, 512> kIQ3_SGrid =
    Expanded<std::uint32_t>(kIQ3_SCodes, kIQ3_SLevels);

void UnpackGridBlock(DataType type, const void* block, GridBlock* to) {
  switch (type) {
    case DataType::kIQ2_XXS: return Unpack(Read<BlockIQ2_XXS>(block), to);
    case DataType::kIQ2_XS: return Unpack(Read<BlockIQ2_XS>(block), to);
    case DataType::kIQ2_S: return Unpack(Read<BlockIQ2_S>(block), to);
    case DataType::kIQ3_XXS: return Unpack(Read<BlockIQ3_XXS>(block), to);
    case DataType::kIQ3_S: return Unpack(Read<BlockIQ3_S>(block), to);
    default: return;
  }
}

}  // namespace kvd::kernels
