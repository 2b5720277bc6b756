// The signs of eight elements are a byte, one bit for each. Types that store seven signs have an
// even number of negative elements: the eighth sign is the parity of the other seven.
//
// Eight elements are unpacked at once in a word of 64 bits. A byte whose sign is set is negated as
// its complement plus one, which carries into no other byte, since no magnitude is 0.
#include "kernels/quant_grids.h"

#include <bit>
#include <cstddef>
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

// For each byte of signs: a word with 0xff in the bytes of negative elements.
constexpr std::array<std::uint64_t, 256> kSigns = [] {
  std::array<std::uint64_t, 256> words = {};
  for (std::size_t signs = 0; signs < words.size(); ++signs) {
    for (std::size_t i = 0; i < 8; ++i) {
      if ((signs >> i & 1) != 0) words[signs] |= std::uint64_t{0xff} << (8 * i);
    }
  }
  return words;
}();

// The same for seven signs; their parity is the eighth sign.
constexpr std::array<std::uint64_t, 128> kEvenSigns = [] {
  std::array<std::uint64_t, 128> words = {};
  for (unsigned seven = 0; seven < words.size(); ++seven) {
    words[seven] = kSigns[seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7];
  }
  return words;
}();
std::uint64_t EvenSigns(unsigned seven) { return kEvenSigns[seven & 127]; }

// Writes eight elements with the magnitudes of `point` and with the signs of a word of kSigns.
void PutPoint(std::uint64_t point, std::uint64_t signs, std::int8_t* q) {
  const std::uint64_t elements = (point ^ signs) + (signs & 0x0101010101010101u);
  std::memcpy(q, &elements, sizeof elements);
}

// Two points of four elements as one of eight.
std::uint64_t Joined(std::uint32_t first, std::uint32_t second) {
  return first | std::uint64_t{second} << 32;
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
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      PutPoint(kIQ2_XXSGrid[block.qs[8 * p + i]], EvenSigns(word >> (7 * i)),
               to->q + 32 * p + 8 * i);
    }
  }
}

void Unpack(const BlockIQ2_XS& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.125f;
  for (std::size_t p = 0; p < 8; ++p) {
    to->half_scales[2 * p] = Odd(block.scales[p]);
    to->half_scales[2 * p + 1] = Odd(block.scales[p] >> 4);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const unsigned bits = block.qs[4 * p + i];
      PutPoint(kIQ2_XSGrid[bits & 511], EvenSigns(bits >> 9), to->q + 32 * p + 8 * i);
    }
  }
}

void Unpack(const BlockIQ2_S& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.125f;
  for (std::size_t p = 0; p < 8; ++p) {
    to->half_scales[2 * p] = Odd(block.scales[p]);
    to->half_scales[2 * p + 1] = Odd(block.scales[p] >> 4);
    const unsigned tops = block.qh[p];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      PutPoint(kIQ2_SGrid[block.qs[4 * p + i] | (tops >> (2 * i) & 3) << 8],
               kSigns[block.signs[4 * p + i]], to->q + 32 * p + 8 * i);
    }
  }
}

void Unpack(const BlockIQ3_XXS& block, GridBlock* to) {
  to->scale = F32FromF16(block.d) * 0.25f;
  for (std::size_t p = 0; p < 8; ++p) {
    const std::uint32_t word = Word(block.signs + 4 * p);
    to->half_scales[2 * p] = to->half_scales[2 * p + 1] = Odd(word >> 28);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t* const qs = block.qs + 8 * p + 2 * i;
      PutPoint(Joined(kIQ3_XXSGrid[qs[0]], kIQ3_XXSGrid[qs[1]]), EvenSigns(word >> (7 * i)),
               to->q + 32 * p + 8 * i);
    }
  }
}

void Unpack(const BlockIQ3_S& block, GridBlock* to) {
  to->scale = F32FromF16(block.d);
  for (std::size_t p = 0; p < 8; ++p) {
    to->half_scales[2 * p] = to->half_scales[2 * p + 1] = Odd(block.scales[p / 2] >> (p % 2 * 4));
    const unsigned tops = block.qh[p];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t* const qs = block.qs + 8 * p + 2 * i;
      const unsigned first = tops >> (2 * i) & 1, second = tops >> (2 * i + 1) & 1;
      PutPoint(Joined(kIQ3_SGrid[qs[0] | first << 8], kIQ3_SGrid[qs[1] | second << 8]),
               kSigns[block.signs[4 * p + i]], to->q + 32 * p + 8 * i);
    }
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
