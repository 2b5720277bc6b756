// Products of many quantised rows of x with quantised weights using tiles of 16 x 16 integers
// (AMX), with the bits of QuantDot.
//
// The panel is that of kernels/avx512/quant_panel.h with signed bytes. The eight vectors of a block
// of the panel are loaded into one tile without rearrangement, and 32 bytes of sixteen rows of x
// into another tile. The sums of a block are converted to floats, so they are stored from the tile
// to memory and read back as vectors. From the first load of a block to its sums as vectors takes
// about a hundred cycles, so the tile unit works three blocks ahead of the vector unit.
#pragma once

#include "kernels/amx/tiles.h"
#include "kernels/avx512/quad_types.h"
#include "kernels/avx512/quant_panel.h"
#include "kernels/lanes/dispatch.h"
#include "kernels/lanes/weights_ahead.h"

namespace kvd::kernels::amx {

using avx512::I;
using avx512::Lanes;
using avx512::PanelShape;
using avx512::V;

// Number of blocks that the tile unit is ahead of the vectors, and of blocks whose sums are stored.
inline constexpr std::size_t kBlocksAhead = 3, kStoredBlocks = kBlocksAhead + 1;
// The number of integer sums of one block.
template <class Q>
inline constexpr std::size_t kBlockSums = (Q::kHalves ? 2 : 1) * kTileRows * 16;

// The sums of the block after which `left` - 1 blocks remain.
template <class Q>
KVD_ALWAYS_INLINE std::int32_t* StoredBlock(std::int32_t* stored, std::size_t left) {
  return stored + left % kStoredBlocks * kBlockSums<Q>;
}

struct TileStep {
  const std::uint8_t* panel;  // one group of sixteen outputs
  const std::uint8_t* x;      // the first row; x_stride is the bytes from one row to the next
  std::size_t x_stride;
  std::size_t row_count;  // 16, or less if kTail
  std::size_t block_count;
  std::int32_t* stored;  // kStoredBlocks * kBlockSums
  float* const* y;       // [row_count]
  std::size_t out;
  std::size_t out_count;  // number of outputs to write, <= 16
};

// Computes the products of a group's blocks in the order of the panel, one block at a time. The two
// halves of a block, or alternate blocks, use different tiles, so that the products of one tile do
// not wait for those of another tile.
template <class Q>
class BlockProducts {
 public:
  static constexpr std::size_t kInner = kQuantizedBlock / (Q::kHalves ? 2 : 1);

  static KVD_ALWAYS_INLINE void Configure(std::size_t row_count) {
    TileShapes shapes;
    for (int i = 0; i < 2; ++i) {
      shapes.Set(kWeights + i, kInner / 4, 64);
      shapes.Set(kRows + i, row_count, kInner);
      shapes.Set(kSums + i, row_count, 64);
    }
    Tiles::Configure(shapes);
  }

  explicit KVD_ALWAYS_INLINE BlockProducts(const TileStep& step)
      : x_(step.x), run_(step.x), x_end_(step.x + kQuantizedBlock * step.block_count) {}

  // Computes the next block, which is at `block` in the panel. left: the number of remaining blocks
  // including this one, at least 1. stored, x_stride: those of the step.
  KVD_ALWAYS_INLINE void Next(const std::uint8_t* block, std::size_t left, std::size_t x_stride,
                              std::int32_t* stored) {
    std::int32_t* const to = StoredBlock<Q>(stored, left);
    const std::uint8_t* const weights = block + 64 * PanelShape<Q>::kBytesAt;
    if constexpr (Q::kHalves) {
      Put<0>(x_, x_stride, weights, to);
      Put<1>(x_ + kInner, x_stride, weights + 64 * (kInner / 4), to + kTileRows * 16);
    } else if (left % 2 == 0) {
      Put<0>(x_, x_stride, weights, to);
    } else {
      Put<1>(x_, x_stride, weights, to);
    }
    x_ += 4 * kQuantizedBlock;
    if (x_ >= x_end_) x_ = run_ += kQuantizedBlock;  // the next of the four runs
  }

 private:
  static constexpr int kWeights = 0, kRows = 2, kSums = 4;  // first tiles, two tiles each

  template <int kTile>
  static KVD_ALWAYS_INLINE void Put(const std::uint8_t* x, std::size_t x_stride,
                                    const std::uint8_t* weights, std::int32_t* to) {
    Tiles::Zero<kSums + kTile>();
    Tiles::Load<kRows + kTile>(x, x_stride);
    Tiles::Load<kWeights + kTile>(weights, 64);
    Tiles::AddProducts<kSums + kTile, kRows + kTile, kWeights + kTile>();
    Tiles::Store<kSums + kTile>(to, 64);
  }

  const std::uint8_t* x_;
  const std::uint8_t* run_;  // where the blocks of this run begin
  const std::uint8_t* x_end_;
};

// Reads the numbers that follow the bytes of sixteen rows of x, one block of a run after the other:
// scales (array 0), scaled sums (array 1) and half starts (array 3).
template <bool kTail>
class RowNumbers;

// Addresses each of the sixteen rows as one of two base rows plus a multiple of the row stride,
// which x86 addressing modes can add. With sixteen pointers instead, each pointer would have to be
// loaded before its use.
template <>
class RowNumbers<false> {
 public:
  // first: the scales of the first row; the other array begins array_bytes after them.
  KVD_ALWAYS_INLINE RowNumbers(const std::uint8_t* first, std::size_t array_bytes,
                               const TileStep& step)
      : one_(step.x_stride),
        three_(3 * one_),
        five_(5 * one_),
        seven_(7 * one_),
        scales_(first),
        scales_of_8_(first + 8 * one_),
        sums_(scales_ + array_bytes),
        sums_of_8_(scales_of_8_ + array_bytes),
        array_bytes_(array_bytes) {}
  KVD_ALWAYS_INLINE std::size_t stride() const { return one_; }
  template <std::size_t kArray, std::size_t kRow>
  KVD_ALWAYS_INLINE const std::uint8_t* At() const {
    if constexpr (kArray == 3) return At<1, kRow>() + 2 * array_bytes_;
    const std::uint8_t* const from =
        kArray == 0 ? (kRow < 8 ? scales_ : scales_of_8_) : (kRow < 8 ? sums_ : sums_of_8_);
    constexpr std::size_t kAway = kRow % 8;
    if constexpr (kAway % 2 == 0) return from + (kAway == 6 ? 2 * three_ : kAway * one_);
    return from + (kAway == 1 ? one_ : kAway == 3 ? three_ : kAway == 5 ? five_ : seven_);
  }
  // Advances to the next block. The asm statements hide from the compiler that the addresses form a
  // series and are multiples of one number; otherwise the compiler would keep each address
  // separately.
  KVD_ALWAYS_INLINE void Advance() {
    scales_ += 4 * sizeof(float);
    scales_of_8_ += 4 * sizeof(float);
    sums_ += 4 * sizeof(float);
    sums_of_8_ += 4 * sizeof(float);
    __asm__("" : "+r"(scales_), "+r"(scales_of_8_));
    __asm__("" : "+r"(sums_), "+r"(sums_of_8_));
    __asm__("" : "+r"(one_), "+r"(three_), "+r"(five_), "+r"(seven_));
  }

 private:
  std::size_t one_, three_, five_, seven_;
  const std::uint8_t *scales_, *scales_of_8_;  // of row 0 and of row 8
  const std::uint8_t *sums_, *sums_of_8_;
  std::size_t array_bytes_;
};

// Rows missing from a tail are replaced by copies of its last row; their results are not used.
template <>
class RowNumbers<true> {
 public:
  KVD_ALWAYS_INLINE RowNumbers(const std::uint8_t* first, std::size_t array_bytes,
                               const TileStep& step)
      : stride_(step.x_stride), arrays_{0, array_bytes, 2 * array_bytes, 3 * array_bytes} {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      rows_[r] = first + (r < step.row_count ? r : step.row_count - 1) * stride_;
    }
  }
  KVD_ALWAYS_INLINE std::size_t stride() const { return stride_; }
  template <std::size_t kArray, std::size_t kRow>
  KVD_ALWAYS_INLINE const std::uint8_t* At() const {
    return rows_[kRow] + arrays_[kArray];
  }
  KVD_ALWAYS_INLINE void Advance() {
    for (std::size_t& array : arrays_) array += 4 * sizeof(float);
  }

 private:
  const std::uint8_t* rows_[kTileRows];
  std::size_t stride_;
  std::size_t arrays_[4];
};

// The exact sum of a block in f32. For types with scales of halves, the magnitude of a half's sum
// is at most 16 * 32 * 127; twice this number, times a scale of eight bits, is less than 2^24, so
// the conversion to f32 does not round. A sum that starts at +0 is never -0.
template <class Q>
KVD_ALWAYS_INLINE V BlockSum(const std::int32_t* sums, V low_scale, V high_scale) {
  const V low = _mm512_cvtepi32_ps(_mm512_load_si512(sums));
  if constexpr (!Q::kHalves) return low;
  const V high = _mm512_cvtepi32_ps(_mm512_load_si512(sums + kTileRows * 16));
  return Lanes::Fma(high, high_scale, Lanes::Fma(low, low_scale, Lanes::Zero()));
}

// Q: a PanelForm.
template <class Q, bool kTail>
void TileGroup(const TileStep& step, Ahead* next) {
  using Shape = PanelShape<Q>;
  const std::size_t padded = (step.block_count + 3) / 4 * 4;
  const std::uint8_t* const first_numbers = step.x + padded * kQuantizedBlock;
  constexpr std::size_t kBlockBytes = Shape::kVectors * 64;
  BlockProducts<Q> products(step);
  // The pointer is copied to a local variable, because the "memory" clobber of the tile
  // instructions would otherwise make the compiler reload the field for each block.
  std::int32_t* const stored = step.stored;
  for (std::size_t i = 0; i < kBlocksAhead && i < step.block_count; ++i) {
    products.Next(step.panel + i * kBlockBytes, step.block_count - i, step.x_stride, stored);
  }

  Ahead ahead = *next;
  V totals[4][kTileRows];
  const std::uint8_t* block = step.panel;
  std::size_t left = step.block_count;
  for (std::size_t p = 0; p < 4; ++p) {
    V sums[kTileRows];
    StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA { sums[r.value] = Lanes::Zero(); });
    RowNumbers<kTail> numbers(first_numbers + 4 * p, 4 * padded, step);
    const std::size_t left_behind = left - RunBlocks(step.block_count, p);
    for (; left != left_behind; --left, block += kBlockBytes) {
      ahead.Step();
      if (left > kBlocksAhead) {
        products.Next(block + kBlocksAhead * kBlockBytes, left - kBlocksAhead, numbers.stride(),
                      stored);
      }
      const std::int32_t* const sum = StoredBlock<Q>(stored, left);
      const auto vector = [&](std::size_t v)
                              KVD_INLINE_LAMBDA { return _mm512_loadu_si512(block + 64 * v); };
      const auto number = [](const std::uint8_t* from) KVD_INLINE_LAMBDA {
        float value;
        __builtin_memcpy(&value, from, sizeof value);
        return Lanes::Set(value);
      };
      const V scale = _mm512_castsi512_ps(vector(0));
      V half_scales[2] = {scale, scale};
      if constexpr (Q::kHalves) {
        half_scales[0] = _mm512_cvtepi32_ps(vector(Shape::kParts));
        half_scales[1] = _mm512_cvtepi32_ps(vector(Shape::kParts + 1));
      }
      StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
        sums[r.value] =
            Lanes::Fma(BlockSum<Q>(sum + 16 * r.value, half_scales[0], half_scales[1]),
                       Lanes::Mul(scale, number(numbers.template At<0, r.value>())), sums[r.value]);
      });
      if constexpr (Q::kMinimums) {
        const V minimum = _mm512_castsi512_ps(vector(Shape::kMinimums));
        StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
          sums[r.value] =
              Lanes::Fma(minimum, number(numbers.template At<1, r.value>()), sums[r.value]);
        });
      }
      if constexpr (kHasHalfMinimums<Q>) {
        const V minimum = _mm512_castsi512_ps(vector(Shape::kHalfMinimums));
        StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
          std::int32_t start;
          __builtin_memcpy(&start, numbers.template At<3, r.value>(), sizeof start);
          const V scaled = Lanes::Mul(Lanes::Set(static_cast<float>(start)),
                                      number(numbers.template At<0, r.value>()));
          sums[r.value] = Lanes::Fma(minimum, scaled, sums[r.value]);
        });
      }
      numbers.Advance();
    }
    StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA { totals[p][r.value] = sums[r.value]; });
  }
  *next = ahead;
  const Lanes::Mask mask =
      step.out_count == 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(step.out_count);
  for (std::size_t r = 0; r < step.row_count; ++r) {
    Lanes::Store(
        step.y[r] + step.out,
        Lanes::Add(Lanes::Add(totals[0][r], totals[2][r]), Lanes::Add(totals[1][r], totals[3][r])),
        mask);
  }
}

template <class Q>
void TileMatmul(const MatmulArgs& args) {
  const std::size_t n = args.in_features;
  const std::size_t block_count = n / kQuantizedBlock;
  const std::size_t panel_outs = QuantPanelOuts(block_count, args.row_count, args.panel_outs);
  const std::size_t group_bytes = block_count * PanelShape<Q>::kVectors * 64;
  const std::size_t x_stride = QuantizedRowBytes(n);
  const std::size_t row_bytes = QuadRowBytes<Q>(n);
  const std::size_t row_tile_count = (args.row_count + kTileRows - 1) / kTileRows;
  auto* const panel = reinterpret_cast<std::uint8_t*>(args.workspace);
  const auto* const x = static_cast<const std::uint8_t*>(args.quantized_x);
  // The array is set to zero, because the sums of rows missing from a tail are read, too.
  alignas(64) std::int32_t stored[kStoredBlocks * kBlockSums<Q>] = {};

  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t left = args.last_out - first;
    const std::size_t last = first + (left < panel_outs ? left : panel_outs);
    const std::size_t group_count = (last - first + 15) / 16;
    Ahead ahead(static_cast<const std::uint8_t*>(args.weights) + last * row_bytes,
                panel_outs * row_bytes, group_count * row_tile_count * block_count);
    for (std::size_t out = first; out < last; out += 16) {
      avx512::PutGroup<Q, true>(args, out, last, panel + (out - first) / 16 * group_bytes);
    }
    for (std::size_t row = 0; row < args.row_count; row += kTileRows) {
      const std::size_t rows_left = args.row_count - row;
      TileStep step = {.panel = panel,
                       .x = x + row * x_stride,
                       .x_stride = x_stride,
                       .row_count = rows_left < kTileRows ? rows_left : kTileRows,
                       .block_count = block_count,
                       .stored = stored,
                       .y = args.y + row,
                       .out = first,
                       .out_count = 16};
      if (row == 0 || step.row_count < kTileRows) BlockProducts<Q>::Configure(step.row_count);
      for (; step.out < last; step.out += 16, step.panel += group_bytes) {
        if (last - step.out < 16) step.out_count = last - step.out;
        if (step.row_count == kTileRows) {
          TileGroup<avx512::FormOf<Q>, false>(step, &ahead);
        } else {
          TileGroup<avx512::FormOf<Q>, true>(step, &ahead);
        }
      }
    }
  }
  Tiles::Release();
}

// Returns false and does nothing if the weights are not quantised. REQUIRES: at least one row and
// one output.
inline bool TileMatmulOfType(const MatmulArgs& args) {
  bool done = false;
  WithQuads<avx512::QuadTypes>(args.weight_type, [&](auto quads) KVD_INLINE_LAMBDA {
    TileMatmul<decltype(quads)>(args);
    done = true;
  });
  return done;
}

}  // namespace kvd::kernels::amx
