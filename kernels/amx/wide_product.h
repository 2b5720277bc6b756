// Products of many rows in bf16 using tiles, with weights of any type but f32. Quantised weights
// are decoded to bf16, once for up to kRangeRows rows, so all types have nearly the same rate.
//
// For a range of outputs and a piece of the elements, panels of 32 outputs are written one after
// the other and multiplied by all rows at once. The tiles of sums are stored after each piece and
// loaded again for the next piece, which changes no bit: the order of a sum is that of
// PairProducts.
#pragma once

#include "kernels/amx/pair_products.h"
#include "kernels/amx/weight_rows.h"
#include "kernels/avx512/halves_panel.h"

namespace kvd::kernels::amx {

using avx512::I;

// Weights of f16 and bf16. A source of weights has four functions:
//   Open(out, count, j, n)  selects the outputs [out, out + count), count <= 16, and the elements
//                           [j, j + n) of each, n <= kPieceElements
//   Load(o, at)             returns elements [j + at, j + at + 32) of output out + o as bf16, with
//                           zeros after the last element of the row; o < count
//   At(out, j)              returns the address of element j of an output
//   Bytes(n)                returns the size of n elements
template <class Pairs>
class HalfWeights {
 public:
  KVD_ALWAYS_INLINE HalfWeights(const MatmulArgs& args, std::uint8_t*)
      : weights_(static_cast<const std::uint8_t*>(args.weights)), in_features_(args.in_features) {}
  KVD_ALWAYS_INLINE void Open(std::size_t out, std::size_t, std::size_t j, std::size_t) {
    from_ = weights_ + 2 * (out * in_features_ + j);
    left_ = in_features_ - j;
  }
  KVD_ALWAYS_INLINE I Load(std::size_t o, std::size_t at) const {
    return Pairs::Load(from_ + 2 * (o * in_features_ + at), left_ - at);
  }
  KVD_ALWAYS_INLINE const std::uint8_t* At(std::size_t out, std::size_t j) const {
    return weights_ + 2 * (out * in_features_ + j);
  }
  static KVD_ALWAYS_INLINE std::size_t Bytes(std::size_t n) { return 2 * n; }

 private:
  const std::uint8_t* weights_;
  std::size_t in_features_;
  const std::uint8_t* from_ = nullptr;
  std::size_t left_ = 0;
};

// Weights of a quantised type. D is the decoder of kernels/avx512/decoders.h.
template <class D>
class DecodedWeights {
 public:
  // room: 16 * kPieceElements * 2 bytes
  KVD_ALWAYS_INLINE DecodedWeights(const MatmulArgs& args, std::uint8_t* room)
      : weights_(static_cast<const std::uint8_t*>(args.weights)),
        row_bytes_(DecoderRowBytes<D>(args.in_features)),
        room_(room) {}
  KVD_ALWAYS_INLINE void Open(std::size_t out, std::size_t count, std::size_t j, std::size_t n) {
    for (std::size_t o = 0; o < count; ++o) {
      DecodedRows<D>::Write(At(out + o, j), n, n, room_ + o * kRoomRowBytes);
    }
  }
  KVD_ALWAYS_INLINE I Load(std::size_t o, std::size_t at) const {
    return _mm512_load_si512(room_ + o * kRoomRowBytes + 2 * at);
  }
  KVD_ALWAYS_INLINE const std::uint8_t* At(std::size_t out, std::size_t j) const {
    return weights_ + out * row_bytes_ + DecoderRowBytes<D>(j);
  }
  static KVD_ALWAYS_INLINE std::size_t Bytes(std::size_t n) { return DecoderRowBytes<D>(n); }

 private:
  static_assert(kPieceElements % D::kElements == 0);
  static constexpr std::size_t kRoomRowBytes = kPieceElements * 2;

  const std::uint8_t* weights_;
  std::size_t row_bytes_;
  std::uint8_t* room_;
};

// The product of up to kRangeRows rows.
template <class Source>
class WideProduct {
 public:
  KVD_ALWAYS_INLINE WideProduct(const MatmulArgs& args, std::size_t first_row,
                                std::size_t row_count)
      : args_(args),
        panel_(reinterpret_cast<std::uint8_t*>(args.workspace)),
        sums_(args.workspace + (kPiecePanelBytes + kPiecePanelBytes / 2) / sizeof(float)),
        source_(args, panel_ + kPiecePanelBytes),
        x_stride_(Bf16RowBytes(args.in_features)),
        x_(static_cast<const std::uint8_t*>(args.bf16_x) + first_row * x_stride_),
        y_(args.y + first_row),
        row_count_(row_count),
        block_count_((row_count + 31) / 32) {}

  // Computes the outputs [first, last), at most kRangeOuts.
  void Run(std::size_t first, std::size_t last) {
    const std::size_t n = args_.in_features;
    for (std::size_t j = 0; j == 0 || j < n; j += kPieceElements) {
      const std::size_t count = n - j < kPieceElements ? n - j : kPieceElements;
      float* sums = sums_;
      for (std::size_t out = first; out < last; out += 32, sums += block_count_ * kBlockSums) {
        const std::size_t outs = last - out < 32 ? last - out : 32;
        WritePanel(out, outs, j, count);
        if (out + 32 < last) {
          next_ = {out + 32, j};
        } else {
          next_ = n - j > kPieceElements ? Place{first, j + kPieceElements} : Place{last, 0};
        }
        const bool asks_rows = out == first;
        if (j == 0) {
          Multiply<false>(j, count, sums, asks_rows);
        } else {
          Multiply<true>(j, count, sums, asks_rows);
        }
        if (n - j > kPieceElements) continue;
        for (std::size_t b = 0; b < block_count_; ++b) Finish(b, sums + b * kBlockSums, out, outs);
      }
    }
  }

 private:
  static constexpr std::size_t kBlockSums = 32 * 32;
  struct Place {
    std::size_t out, j;
  };

  KVD_ALWAYS_INLINE void WritePanel(std::size_t out, std::size_t outs, std::size_t j,
                                    std::size_t count) {
    for (std::size_t group = 0; group < 2; ++group) {
      // Without a second sixteen outputs, the first sixteen are used twice.
      const std::size_t before = outs > 16 * group ? 16 * group : 0;
      const std::size_t exist = outs - before < 16 ? outs - before : 16;
      if (before == 16 * group) source_.Open(out + before, exist, j, count);
      std::uint8_t* to = panel_ + group * (kPiecePanelBytes / 2);
      for (std::size_t at = 0; at < count; at += 32, to += 16 * 64) {
        I pairs[16];
        avx512::TurnPairs(
            [&](std::size_t o)
                KVD_INLINE_LAMBDA { return source_.Load(o < exist ? o : exist - 1, at); },
            pairs);
        StaticFor<16>([&](auto p) KVD_INLINE_LAMBDA {
          _mm512_store_si512(to + 64 * p.value, pairs[p.value]);
        });
      }
    }
  }

  // Adds the products of a piece to the sums of 32 outputs and all rows.
  template <bool kContinues>
  KVD_ALWAYS_INLINE void Multiply(std::size_t j, std::size_t count, float* sums, bool asks_rows) {
    const std::uint8_t* const from = x_ + 2 * j;
    PairProducts products = {.rows = {},
                             .row_stride = x_stride_,
                             .columns = {panel_, panel_ + kPiecePanelBytes / 2},
                             .column_stride = 64,
                             .step_bytes = 16 * 64,
                             .step_count = (count + 31) / 32};
    const std::size_t asked = (32 + block_count_ - 1) / block_count_;
    for (std::size_t b = 0; b < block_count_; ++b, sums += kBlockSums) {
      AskWeights(b * asked, (b + 1) * asked);
      if (asks_rows && b + 1 < block_count_) AskRows(32 * (b + 1), j, count);
      products.rows[0] = from + TileRow(2 * b, row_count_) * x_stride_;
      if (32 * b + 16 < row_count_) {
        products.rows[1] = from + TileRow(2 * b + 1, row_count_) * x_stride_;
        products.template Sum<true, true, kContinues>(sums);
      } else {
        products.template Sum<false, true, kContinues>(sums);
      }
    }
  }

  // Writes the sums of block b to the rows of y.
  KVD_ALWAYS_INLINE void Finish(std::size_t b, const float* sums, std::size_t out,
                                std::size_t outs) {
    for (std::size_t t = 2 * b; t < 2 * b + 2 && t * kTileRows < row_count_; ++t) {
      float* const* const rows = y_ + TileRow(t, row_count_);
      const std::size_t left = row_count_ - TileRow(t, row_count_);
      for (std::size_t r = 0; r < kTileRows && r < left; ++r) {
        __builtin_memcpy(rows[r] + out, sums + (t % 2 * kTileRows + r) * 32, outs * sizeof(float));
      }
    }
  }

  // Prefetches the next panel's outputs [first, last) of 32. The addresses may be outside of any
  // mapping, because a prefetch does not fault.
  KVD_ALWAYS_INLINE void AskWeights(std::size_t first, std::size_t last) const {
    const std::size_t left = args_.in_features - next_.j;
    const std::size_t bytes = Source::Bytes(left < kPieceElements ? left : kPieceElements);
    for (std::size_t o = first; o < last && o < 32; ++o) {
      const std::uint8_t* const from = source_.At(next_.out + o, next_.j);
      for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at, 0, 2);
      __builtin_prefetch(from + bytes - 1, 0, 2);
    }
  }

  // Prefetches a piece of the rows [row, row + 32).
  KVD_ALWAYS_INLINE void AskRows(std::size_t row, std::size_t j, std::size_t count) const {
    const std::size_t end = row_count_ - row < 32 ? row_count_ : row + 32;
    for (; row < end; ++row) {
      const std::uint8_t* const from = x_ + row * x_stride_ + 2 * j;
      for (std::size_t at = 0; at < 2 * count; at += 64) __builtin_prefetch(from + at, 0, 2);
    }
  }

  const MatmulArgs& args_;
  std::uint8_t* panel_;
  float* sums_;  // [panel][block of 32 rows][32][32]
  Source source_;
  std::size_t x_stride_;
  const std::uint8_t* x_;
  float* const* y_;
  std::size_t row_count_, block_count_;
  Place next_ = {};  // of the panel that is written next
};

template <class Source>
void WideInTiles(const MatmulArgs& args) {
  // Ranges of nearly equal size, in whole panels.
  const std::size_t panels = (args.last_out - args.first_out + 31) / 32;
  constexpr std::size_t kRangePanels = kRangeOuts / 32;
  const std::size_t ranges = (panels + kRangePanels - 1) / kRangePanels;
  const std::size_t range_outs = (panels + ranges - 1) / ranges * 32;
  for (std::size_t row = 0; row < args.row_count; row += kRangeRows) {
    const std::size_t left = args.row_count - row;
    const std::size_t rows = left < kRangeRows ? left : kRangeRows;
    const std::size_t tile_rows = rows < kTileRows ? rows : kTileRows;
    PairProducts::Configure(tile_rows, tile_rows, 16);
    WideProduct<Source> product(args, row, rows);
    for (std::size_t first = args.first_out; first < args.last_out; first += range_outs) {
      const std::size_t outs_left = args.last_out - first;
      product.Run(first, first + (outs_left < range_outs ? outs_left : range_outs));
    }
  }
  Tiles::Release();
}

}  // namespace kvd::kernels::amx
