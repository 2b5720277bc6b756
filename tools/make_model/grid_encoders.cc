// Encoders of the block types whose groups of magnitudes are points of a grid
// (kernels/quant_grids.h).
//
// An encoder rounds each magnitude to the nearest level, and then the levels of a group to the
// nearest point of the grid; a table holds the nearest point for every combination of levels. For
// each part, an encoder tries all sixteen scales.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/quant_grid_codes.h"
#include "kernels/quant_grids.h"
#include "tools/make_model/block_encoders.h"

namespace kvd {
namespace {

using kernels::F16FromF32;
using kernels::F32FromF16;

std::uint8_t Byte(unsigned bits) { return static_cast<std::uint8_t>(bits); }

// A grid: its points by index, and the index of the nearest point for each combination of levels.
class Lattice {
 public:
  Lattice(std::span<const std::uint16_t> codes, std::span<const std::uint8_t> levels)
      : levels_(levels),
        bits_(levels.size() == 3 ? 2 : 3),
        elements_(levels.size() == 3 ? 8 : 4),
        points_(codes.begin(), codes.end()),
        nearest_(std::size_t{1} << (bits_ * elements_)) {
    for (unsigned code = 0; code < nearest_.size(); ++code) {
      if (IsCode(code)) nearest_[code] = NearestTo(code);
    }
  }
  unsigned elements() const { return elements_; }
  int top() const { return levels_.back(); }
  int middle() const { return levels_[levels_.size() / 2]; }
  int bottom() const { return levels_.front(); }

  // Returns the index of the grid point for a group's magnitudes, which are given in units of the
  // scale.
  std::uint16_t PointFor(const float* magnitudes) const {
    unsigned code = 0;
    for (unsigned i = 0; i < elements_; ++i) {
      unsigned nearest = 0;
      for (unsigned level = 1; level < levels_.size(); ++level) {
        const float between = 0.5f * static_cast<float>(levels_[level - 1] + levels_[level]);
        if (magnitudes[i] > between) nearest = level;
      }
      code |= nearest << (bits_ * i);
    }
    return nearest_[code];
  }
  int Magnitude(std::uint16_t point, unsigned i) const { return LevelOf(points_[point], i); }

 private:
  int LevelOf(unsigned code, unsigned i) const {
    return levels_[code >> (bits_ * i) & ((1u << bits_) - 1)];
  }
  bool IsCode(unsigned code) const {
    for (unsigned i = 0; i < elements_; ++i) {
      if ((code >> (bits_ * i) & ((1u << bits_) - 1)) >= levels_.size()) return false;
    }
    return true;
  }
  std::uint16_t NearestTo(unsigned code) const {
    std::size_t nearest = 0;
    int least = std::numeric_limits<int>::max();
    for (std::size_t p = 0; p < points_.size(); ++p) {
      int distance = 0;
      for (unsigned i = 0; i < elements_; ++i) {
        const int apart = LevelOf(code, i) - LevelOf(points_[p], i);
        distance += apart * apart;
      }
      if (distance < least) nearest = p, least = distance;
    }
    return static_cast<std::uint16_t>(nearest);
  }

  std::span<const std::uint8_t> levels_;
  unsigned bits_, elements_;
  std::vector<std::uint16_t> points_, nearest_;
};

struct Form {
  const Lattice& lattice;
  std::size_t part_elements;  // number of elements that share a scale: 16 or 32
  bool has_even_signs;
  float factor;  // a part's scale is d * factor * (2 * its integer scale + 1)
};

struct Parts {
  std::uint16_t d = 0;
  float error = 0.0f;
  std::array<unsigned, 16> scales = {};       // scale of each part: [part]
  std::array<std::uint16_t, 64> points = {};  // grid point of each group: [group]
  std::array<std::uint8_t, 32> signs = {};    // signs of each eight elements
};

// Returns the signs of eight elements; bit i is set if element i is negative. If `is_even` and the
// number of negative elements is odd, the sign of the element with the smallest magnitude is
// inverted.
std::uint8_t SignsOf(std::span<const float> eight, bool is_even) {
  unsigned signs = 0;
  std::size_t smallest = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    if (eight[i] < 0.0f) signs |= 1u << i;
    if (std::fabs(eight[i]) < std::fabs(eight[smallest])) smallest = i;
  }
  if (is_even && std::popcount(signs) % 2 != 0) signs ^= 1u << smallest;
  return Byte(signs);
}

// Chooses the grid points of a part's groups for a scale and returns the sum of squared errors.
float PutPoints(const Form& form, const float* x, const std::uint8_t* signs, float scale,
                std::uint16_t* points) {
  const unsigned elements = form.lattice.elements();
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  float error = 0.0f;
  for (std::size_t j = 0; j < form.part_elements; j += elements, ++points) {
    float magnitudes[8];
    for (std::size_t i = 0; i < elements; ++i) {
      const bool is_negative = (signs[(j + i) / 8] >> ((j + i) % 8) & 1) != 0;
      magnitudes[i] = (is_negative ? -x[j + i] : x[j + i]) * inverse;
    }
    const std::uint16_t point = form.lattice.PointFor(magnitudes);
    for (unsigned i = 0; i < elements; ++i) {
      const float rest =
          (magnitudes[i] - static_cast<float>(form.lattice.Magnitude(point, i))) * scale;
      error += rest * rest;
    }
    *points = point;
  }
  return error;
}

Parts EncodeWith(const Form& form, std::span<const float> x, float d) {
  Parts parts = {.d = F16FromF32(d)};
  const float unit = F32FromF16(parts.d) * form.factor;
  const std::size_t groups = form.part_elements / form.lattice.elements();
  for (std::size_t i = 0; i < 32; ++i) {
    parts.signs[i] = SignsOf(x.subspan(8 * i, 8), form.has_even_signs);
  }
  for (std::size_t p = 0; p < 256 / form.part_elements; ++p) {
    float least = std::numeric_limits<float>::infinity();
    for (unsigned s = 0; s < 16; ++s) {
      std::array<std::uint16_t, 8> points;
      const float error = PutPoints(form, x.data() + form.part_elements * p,
                                    parts.signs.data() + form.part_elements / 8 * p,
                                    unit * static_cast<float>(2 * s + 1), points.data());
      if (error >= least) continue;
      least = error;
      parts.scales[p] = s;
      std::copy_n(points.begin(), groups, parts.points.begin() + static_cast<long>(groups * p));
    }
    parts.error += least;
  }
  return parts;
}

// Encodes with the best of three values of d: with the greatest scale, the greatest magnitude
// becomes the top level, the middle level or, for blocks of equal numbers, the bottom level (every
// grid has a point of it).
Parts Encode(const Form& form, std::span<const float> x) {
  float magnitude = 0.0f;
  for (float value : x) magnitude = std::max(magnitude, std::fabs(value));
  const auto with_level = [&](int level) {
    return EncodeWith(form, x, magnitude / (31.0f * form.factor * static_cast<float>(level)));
  };
  Parts best = with_level(form.lattice.top());
  for (const int level : {form.lattice.middle(), form.lattice.bottom()}) {
    const Parts parts = with_level(level);
    if (parts.error < best.error) best = parts;
  }
  return best;
}

void PutWord(std::uint32_t word, std::uint8_t* to) {
  for (int i = 0; i < 4; ++i) to[i] = Byte(word >> (8 * i) & 255);
}

// Returns a word with four groups of 7 sign bits and the 4-bit scale of part `p`.
std::uint32_t SignsAndScale(const Parts& parts, std::size_t p) {
  std::uint32_t word = parts.scales[p] << 28;
  for (std::size_t i = 0; i < 4; ++i) word |= (parts.signs[4 * p + i] & 127u) << (7 * i);
  return word;
}

std::uint8_t TwoScales(const Parts& parts, std::size_t first) {
  return Byte(parts.scales[first] | parts.scales[first + 1] << 4);
}

}  // namespace

kernels::BlockIQ2_XXS EncodeIQ2_XXS(std::span<const float> x) {
  static const Lattice kLattice(kernels::kIQ2_XXSCodes, kernels::kIQ2Levels);
  const Parts parts = Encode({kLattice, 32, true, 0.125f}, x);
  kernels::BlockIQ2_XXS block = {.d = parts.d, .qs = {}};
  for (std::size_t p = 0; p < 8; ++p) {
    for (std::size_t i = 0; i < 4; ++i) block.qs[8 * p + i] = Byte(parts.points[4 * p + i]);
    PutWord(SignsAndScale(parts, p), block.qs + 8 * p + 4);
  }
  return block;
}

kernels::BlockIQ2_XS EncodeIQ2_XS(std::span<const float> x) {
  static const Lattice kLattice(kernels::kIQ2_XSCodes, kernels::kIQ2Levels);
  const Parts parts = Encode({kLattice, 16, true, 0.125f}, x);
  kernels::BlockIQ2_XS block = {.d = parts.d, .qs = {}, .scales = {}};
  for (std::size_t i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<std::uint16_t>(parts.points[i] | (parts.signs[i] & 127u) << 9);
  }
  for (std::size_t p = 0; p < 8; ++p) block.scales[p] = TwoScales(parts, 2 * p);
  return block;
}

kernels::BlockIQ2_S EncodeIQ2_S(std::span<const float> x) {
  static const Lattice kLattice(kernels::kIQ2_SCodes, kernels::kIQ2Levels);
  const Parts parts = Encode({kLattice, 16, false, 0.125f}, x);
  kernels::BlockIQ2_S block = {.d = parts.d, .qs = {}, .signs = {}, .qh = {}, .scales = {}};
  for (std::size_t i = 0; i < 32; ++i) {
    block.qs[i] = Byte(parts.points[i] & 255u);
    block.qh[i / 4] = Byte(block.qh[i / 4] | parts.points[i] >> 8 << (i % 4 * 2));
    block.signs[i] = parts.signs[i];
  }
  for (std::size_t p = 0; p < 8; ++p) block.scales[p] = TwoScales(parts, 2 * p);
  return block;
}

kernels::BlockIQ3_XXS EncodeIQ3_XXS(std::span<const float> x) {
  static const Lattice kLattice(kernels::kIQ3_XXSCodes, kernels::kIQ3_XXSLevels);
  const Parts parts = Encode({kLattice, 32, true, 0.25f}, x);
  kernels::BlockIQ3_XXS block = {.d = parts.d, .qs = {}, .signs = {}};
  for (std::size_t i = 0; i < 64; ++i) block.qs[i] = Byte(parts.points[i]);
  for (std::size_t p = 0; p < 8; ++p) PutWord(SignsAndScale(parts, p), block.signs + 4 * p);
  return block;
}

kernels::BlockIQ3_S EncodeIQ3_S(std::span<const float> x) {
  static const Lattice kLattice(kernels::kIQ3_SCodes, kernels::kIQ3_SLevels);
  const Parts parts = Encode({kLattice, 32, false, 1.0f}, x);
  kernels::BlockIQ3_S block = {.d = parts.d, .qs = {}, .qh = {}, .signs = {}, .scales = {}};
  for (std::size_t i = 0; i < 64; ++i) {
    block.qs[i] = Byte(parts.points[i] & 255u);
    block.qh[i / 8] = Byte(block.qh[i / 8] | parts.points[i] >> 8 << (i % 8));
  }
  for (std::size_t i = 0; i < 32; ++i) block.signs[i] = parts.signs[i];
  for (std::size_t p = 0; p < 4; ++p) block.scales[p] = TwoScales(parts, 2 * p);
  return block;
}

}  // namespace kvd
