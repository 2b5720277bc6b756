// Products of a few rows of x in bf16 using tiles. The decoded weight rows are the rows of the
// tiles, as they are in the file, and the turned rows of x are the columns. Unlike in a product of
// many rows (wide_product.h), no weight is turned, and each weight is decoded once for all rows.
// The order of sums is that of products of many rows.
//
// Memory limits such a product. Therefore the weights of the next 32 outputs are prefetched into
// the second-level cache in the order in which they are stored, while the pieces of the current 32
// are prefetched from there into the first-level cache, decoded and multiplied.
#pragma once

#include "kernels/amx/pair_products.h"
#include "kernels/amx/weight_rows.h"
#include "kernels/avx512/halves_panel.h"

namespace kvd::kernels::amx {

inline constexpr std::size_t kFewRowsMax = 2 * kTileRows;

template <class Rows>
class FewRowsProduct {
 public:
  KVD_ALWAYS_INLINE explicit FewRowsProduct(const MatmulArgs& args)
      : args_(args),
        n_(Bf16Padded(args.in_features)),
        row_bytes_(Rows::RowBytes(args.in_features)),
        room_(reinterpret_cast<std::uint8_t*>(args.workspace)),
        turned_(room_ + 2 * kPiecePanelBytes) {}

  void Run() {
    TurnX(0);
    if (args_.row_count > kTileRows) TurnX(1);
    for (std::size_t out = args_.first_out; out < args_.last_out; out += 32) {
      const std::size_t outs = args_.last_out - out < 32 ? args_.last_out - out : 32;
      if (out == args_.first_out || outs < 32) {
        PairProducts::Configure(outs < 16 ? outs : 16, outs < 16 ? 0 : outs - 16, 16);
      }
      alignas(64) float sums[32 * 32];  // [output][row of x]
      const bool two_rows = outs > 16, two_columns = args_.row_count > kTileRows;
      if (two_rows && two_columns) {
        Sum<true, true>(out, outs, sums);
      } else if (two_rows) {
        Sum<true, false>(out, outs, sums);
      } else if (two_columns) {
        Sum<false, true>(out, outs, sums);
      } else {
        Sum<false, false>(out, outs, sums);
      }
      for (std::size_t r = 0; r < args_.row_count; ++r) {
        for (std::size_t o = 0; o < outs; ++o) args_.y[r][out + o] = sums[o * 32 + r];
      }
    }
    Tiles::Release();
  }

 private:
  static constexpr std::size_t kRoomRowBytes = kPieceElements * 2;

  // Writes the pairs of sixteen rows of x, one row per lane.
  KVD_ALWAYS_INLINE void TurnX(std::size_t group) {
    const std::size_t stride = Bf16RowBytes(args_.in_features), last = args_.row_count - 1;
    const auto* const x = static_cast<const std::uint8_t*>(args_.bf16_x);
    std::uint8_t* to = Turned(group);
    for (std::size_t j = 0; j < n_; j += 32) {
      avx512::I pairs[16];
      const auto load = [&](std::size_t r) KVD_INLINE_LAMBDA {
        const std::size_t row = group * kTileRows + r;
        return _mm512_loadu_si512(x + (row < last ? row : last) * stride + 2 * j);
      };
      avx512::TurnPairs(load, pairs);
      StaticFor<16>([&](auto p) KVD_INLINE_LAMBDA {
        _mm512_store_si512(to, pairs[p.value]);
        to += kTileRowBytes;
      });
    }
  }

  std::uint8_t* Turned(std::size_t group) const {
    return turned_ + group * n_ / 32 * kTileRows * kTileRowBytes;
  }

  template <bool kTwoRows, bool kTwoColumns>
  KVD_ALWAYS_INLINE void Sum(std::size_t out, std::size_t outs, float* sums) {
    PairProducts products = {.rows = {},
                             .row_stride = kRoomRowBytes,
                             .columns = {Turned(0), Turned(1)},
                             .column_stride = kTileRowBytes,
                             .step_bytes = kTileRows * kTileRowBytes,
                             .step_count = 0};
    const std::size_t n = args_.in_features, pieces = (n + kPieceElements - 1) / kPieceElements;
    const std::uint8_t* const weights = static_cast<const std::uint8_t*>(args_.weights);
    const std::uint8_t* ask = weights + (out + 32) * row_bytes_;
    const std::size_t asked = (32 * row_bytes_ + pieces - 1) / pieces;
    PairProducts::Start<kTwoRows, kTwoColumns>();
    // One piece is written while the tiles of the piece before are multiplied.
    WritePiece(out, outs, 0);
    for (std::size_t p = 0; p < pieces; ++p, ask += asked) {
      for (std::size_t at = 0; at < asked; at += 64) __builtin_prefetch(ask + at, 0, 2);
      if (p + 1 < pieces) WritePiece(out, outs, p + 1);
      const std::size_t left = n_ - p * kPieceElements;
      products.step_count = (left < kPieceElements ? left : kPieceElements) / 32;
      products.rows[0] = Room(p);
      products.rows[1] = Room(p) + kTileRows * kRoomRowBytes;
      products.Add<kTwoRows, kTwoColumns>();
      for (const std::uint8_t*& columns : products.columns) {
        columns += kPieceElements / 32 * products.step_bytes;
      }
    }
    PairProducts::Finish<kTwoRows, kTwoColumns>(sums);
  }

  std::uint8_t* Room(std::size_t piece) const { return room_ + piece % 2 * kPiecePanelBytes; }

  KVD_ALWAYS_INLINE void WritePiece(std::size_t out, std::size_t outs, std::size_t piece) {
    const std::size_t j = piece * kPieceElements, left = args_.in_features - j;
    const std::size_t count = left < kPieceElements ? left : kPieceElements;
    const std::uint8_t* from =
        static_cast<const std::uint8_t*>(args_.weights) + out * row_bytes_ + Rows::RowBytes(j);
    std::uint8_t* to = Room(piece);
    for (std::size_t o = 0; o < outs; ++o, from += row_bytes_, to += kRoomRowBytes) {
      // The same output's next piece. The address may be outside of any mapping.
      for (std::size_t at = 0; at < Rows::RowBytes(kPieceElements); at += 64) {
        __builtin_prefetch(from + Rows::RowBytes(kPieceElements) + at);
      }
      Rows::Write(from, count, left, to);
    }
  }

  const MatmulArgs& args_;
  const std::size_t n_, row_bytes_;
  std::uint8_t* const room_;    // two pieces of 32 outputs
  std::uint8_t* const turned_;  // [group of sixteen rows][pair of elements][row]
};

}  // namespace kvd::kernels::amx
