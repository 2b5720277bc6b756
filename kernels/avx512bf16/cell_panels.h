// Writes keys and values of a run, read directly from their cells, in the form that attention in
// bf16 reads.
#pragma once

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/lanes.h"
#include "kernels/avx512bf16/pairs.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes/dispatch.h"

namespace kvd::kernels::avx512bf16 {

inline constexpr std::size_t kPairBytes = 4;

// Elements [d, d + 32) of a cell of `dim` elements as pairs of bf16, with zeros after the last
// element.
template <class D>
KVD_ALWAYS_INLINE I CellPairs(const std::uint8_t* cell, std::size_t d, std::size_t dim) {
  const std::uint8_t* const from = cell + DecoderRowBytes<D>(d);
  V low = Lanes::Zero(), high = Lanes::Zero();
  if (dim - d >= 32) {
    D::template Pair<0>(D::Open(from), &low, &high);
  } else if constexpr (D::kPlain) {
    const std::size_t left = dim - d;
    low = left >= 16 ? D::Group(from) : D::Group(from, left);
    if (left > 16) high = D::Group(from + 16 * D::kElementBytes, left - 16);
  }
  return Round::Of(low, high);
}

// Writes sixteen columns of a panel that is kRunCells pairs wide, from `count` cells: one row for
// each pair of elements, up to a multiple of 32 elements.
template <class D>
KVD_ALWAYS_INLINE void KeyColumns(const std::uint8_t* k, std::size_t count, std::size_t dim,
                                  std::uint8_t* panel) {
  const std::size_t cell_bytes = DecoderRowBytes<D>(dim);
  for (std::size_t d = 0; d < dim; d += 32, panel += 16 * kRunCells * kPairBytes) {
    I words[4][4];  // [four cells][cell, then pair % 4]
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto c) KVD_INLINE_LAMBDA {
        constexpr std::size_t kCell = std::size_t{4} * q.value + c.value;
        words[q.value][c.value] =
            kCell < count ? CellPairs<D>(k + kCell * cell_bytes, d, dim) : _mm512_setzero_si512();
      });
      avx512::Transposition::WithinLanes(words[q.value]);
    });
    StaticFor<4>([&](auto pair) KVD_INLINE_LAMBDA {
      I v[4] = {words[0][pair.value], words[1][pair.value], words[2][pair.value],
                words[3][pair.value]};
      avx512::Transposition::Of128(v);
      StaticFor<4>([&](auto lane) KVD_INLINE_LAMBDA {
        _mm512_storeu_si512(panel + (4 * lane.value + pair.value) * kRunCells * kPairBytes,
                            v[lane.value]);
      });
    });
  }
}

template <class D>
KVD_ALWAYS_INLINE void KeyPanelOf(const std::uint8_t* k, std::size_t cell_count, std::size_t dim,
                                  std::uint8_t* panel) {
  const std::size_t cell_bytes = DecoderRowBytes<D>(dim);
  for (std::size_t c = 0; c < cell_count; c += 16) {
    const std::uint8_t* const cells = k + c * cell_bytes;
    if (cell_count - c >= 16) {
      KeyColumns<D>(cells, 16, dim, panel + c * kPairBytes);
    } else {
      KeyColumns<D>(cells, cell_count - c, dim, panel + c * kPairBytes);
    }
  }
}

// Bytes of a row of a panel of values. A panel has a row for each pair of cells; a row has one pair
// of bf16 per element, up to a multiple of 16 pairs.
KVD_ALWAYS_INLINE std::size_t ValuePanelRowBytes(std::size_t dim) {
  return (dim + 15) / 16 * 16 * kPairBytes;
}

// Writes the row of two cells; a null cell is written as zeros.
template <class D>
KVD_ALWAYS_INLINE void ValuePanelRow(const std::uint8_t* even, const std::uint8_t* odd,
                                     std::size_t dim, std::uint8_t* to) {
  const I low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const I high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (std::size_t d = 0; d < dim; d += 32, to += 128) {
    const I a = even != nullptr ? CellPairs<D>(even, d, dim) : _mm512_setzero_si512();
    const I b = odd != nullptr ? CellPairs<D>(odd, d, dim) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
    if (dim - d > 16) _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi16(a, high, b));
  }
}

// v: cells [first, end), cell_bytes apart.
template <class D>
KVD_ALWAYS_INLINE void ValuePanelOf(const std::uint8_t* v, std::size_t cell_bytes,
                                    std::size_t first, std::size_t end, std::size_t dim,
                                    std::uint8_t* panel) {
  const std::size_t row_bytes = ValuePanelRowBytes(dim);
  std::size_t c = first;
  if (c % 2 != 0) {
    ValuePanelRow<D>(nullptr, v, dim, panel + c / 2 * row_bytes);
    v += cell_bytes;
    ++c;
  }
  for (; c + 2 <= end; c += 2, v += 2 * cell_bytes) {
    ValuePanelRow<D>(v, v + cell_bytes, dim, panel + c / 2 * row_bytes);
  }
  if (c < end) ValuePanelRow<D>(v, nullptr, dim, panel + c / 2 * row_bytes);
}

}  // namespace kvd::kernels::avx512bf16
