// Attention over one run of at most 32 cells, for many query rows at once.
//
// Keys are decoded once into a panel in which the cells of a run are adjacent, so that sixteen
// scores of a row are one vector and no sum crosses lanes. Values keep the layout of their cells;
// each decoded value is used for several rows.
#pragma once

#include "kernels/form_constants.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes/dispatch.h"

namespace kvd::kernels {

// ---- keys

// Writes elements [d, d + 16 * kGroups) of `count` cells to the panel's rows from d. `decoded` has
// the shape [16][32]; its rows from `count` on are zero.
template <class Isa, int kGroups>
KVD_ALWAYS_INLINE void TransposeGroups(const float* decoded, float* panel) {
  StaticFor<kGroups>([&](auto g) KVD_INLINE_LAMBDA {
    Isa::Lanes::Transpose16(decoded + 16 * g.value, 32, panel + 16 * g.value * kRunCells,
                            kRunCells);
  });
}

template <class Isa, class D>
KVD_ALWAYS_INLINE void PanelColumns(const std::uint8_t* k, std::size_t cell_bytes,
                                    std::size_t count, std::size_t dim, float* panel) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  alignas(64) float decoded[16 * 32];
  for (std::size_t i = count * 32; i < 16 * 32; i += 16) L::Store(decoded + i, L::Zero());
  std::size_t d = 0;
  for (; d + 32 <= dim; d += 32) {
    const std::size_t at = DecoderRowBytes<D>(d);
    constexpr std::size_t kPairs = D::kElements / 32;
    static_assert(kPairs == 1, "a cell's blocks have 32 elements");
    for (std::size_t c = 0; c < count; ++c) {
      V a, b;
      D::template Pair<0>(D::Open(k + c * cell_bytes + at), &a, &b);
      L::Store(decoded + c * 32, a);
      L::Store(decoded + c * 32 + 16, b);
    }
    TransposeGroups<Isa, 2>(decoded, panel + d * kRunCells);
  }
  if constexpr (D::kPlain) {
    for (; d < dim; d += 16) {
      const std::size_t at = DecoderRowBytes<D>(d), n = dim - d < 16 ? dim - d : 16;
      for (std::size_t c = 0; c < count; ++c) {
        const std::uint8_t* from = k + c * cell_bytes + at;
        L::Store(decoded + c * 32, n == 16 ? D::Group(from) : D::Group(from, n));
      }
      TransposeGroups<Isa, 1>(decoded, panel + d * kRunCells);
    }
  }
}

template <class Isa>
void KeyPanel(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
              float* panel) {
  const auto* cells = static_cast<const std::uint8_t*>(k);
  WithCellDecoder<Isa>(k_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    using D = decltype(decoder);
    const std::size_t cell_bytes = DecoderRowBytes<D>(dim);
    for (std::size_t c = 0; c < cell_count; c += 16) {
      const std::size_t count = cell_count - c < 16 ? cell_count - c : 16;
      PanelColumns<Isa, D>(cells + c * cell_bytes, cell_bytes, count, dim, panel + c);
    }
  });
}

// ---- scores

// Computes the scores of kVectors * 16 cells for kRows rows. Only the first `tail` cells of the
// last vector of scores are written (0: all).
template <class Isa, int kRows, int kVectors>
KVD_ALWAYS_INLINE void ScoreTile(const float* panel, std::size_t tail, std::size_t dim,
                                 const float* q, std::size_t q_stride, float scale, float* scores,
                                 std::size_t score_stride) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  V totals[kRows][kVectors];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA { totals[r.value][i.value] = L::Zero(); });
  });
  for (std::size_t first = 0; first < dim; first += kScoreChunk) {
    const std::size_t end = dim - first < kScoreChunk ? dim : first + kScoreChunk;
    V sums[kRows][kVectors];
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA { sums[r.value][i.value] = L::Zero(); });
    });
    for (std::size_t d = first; d < end; ++d) {
      V keys[kVectors];
      StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
        keys[i.value] = L::Load(panel + d * kRunCells + 16 * i.value);
      });
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        const V x = L::Set(q[r.value * q_stride + d]);
        StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
          sums[r.value][i.value] = L::Fma(x, keys[i.value], sums[r.value][i.value]);
        });
      });
    }
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
        totals[r.value][i.value] = L::Add(totals[r.value][i.value], sums[r.value][i.value]);
      });
    });
  }
  const V factor = L::Set(scale);
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
      float* to = scores + r.value * score_stride + 16 * i.value;
      const V score = L::Mul(factor, totals[r.value][i.value]);
      if (i.value + 1 < kVectors || tail == 0) {
        L::Store(to, score);
      } else {
        L::Store(to, score, L::FirstLanes(tail));
      }
    });
  });
}

template <class Isa>
void Scores(const float* panel, std::size_t cell_count, std::size_t dim, const float* q,
            std::size_t q_stride, std::size_t row_count, float scale, float* scores,
            std::size_t score_stride) {
  constexpr int kRowsMax = Isa::Lanes::kScoreRowsMax;
  const std::size_t tail = cell_count % 16;
  const std::size_t tile_count = (row_count + kRowsMax - 1) / kRowsMax;
  for (std::size_t t = 0; t < tile_count; ++t) {
    const std::size_t row = row_count * t / tile_count;
    const std::size_t rows = row_count * (t + 1) / tile_count - row;
    const float* from = q + row * q_stride;
    float* to = scores + row * score_stride;
    StaticFor<kRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
      constexpr int kRows = decltype(r)::value + 1;
      if (rows != kRows) return;
      if (cell_count > 16) {
        ScoreTile<Isa, kRows, 2>(panel, tail, dim, from, q_stride, scale, to, score_stride);
      } else {
        ScoreTile<Isa, kRows, 1>(panel, tail, dim, from, q_stride, scale, to, score_stride);
      }
    });
  }
}

// ---- softmax

template <class Isa>
KVD_ALWAYS_INLINE float ExpOf(float x) {
  float lanes[16];
  Isa::Lanes::Store(lanes, Isa::Lanes::Exp(Isa::Lanes::Set(x)));
  return lanes[0];
}

// Computes the softmax of at most sixteen rows. Operations across lanes (maxima and sums) are done
// for all rows at once.
template <class Isa>
KVD_ALWAYS_INLINE void SoftmaxSixteen(float* scores, std::size_t score_stride,
                                      std::size_t row_count, std::size_t cell_count,
                                      SoftmaxState* states, float* rescales) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::size_t groups_end = (row_count + 3) / 4 * 4;
  const std::size_t tail = cell_count % 16;
  const bool two_vectors = cell_count > 16;
  const auto mask = L::FirstLanes(tail == 0 ? 16 : tail);  // of the last vector
  alignas(64) V parts[16];                                 // by row; zero after the last row
  alignas(64) float old_maxima[16], maxima[16], sums[16], old_sums[16];
  for (std::size_t r = row_count; r < groups_end; ++r) parts[r] = L::Zero();
  for (std::size_t r = 0; r < 16; ++r) {
    old_maxima[r] = r < row_count ? states[r].max : 0.0f;
    old_sums[r] = r < row_count ? states[r].sum : 0.0f;
  }

  for (std::size_t r = 0; r < row_count; ++r) {
    const float* const row = scores + r * score_stride;
    const V old = L::Set(old_maxima[r]);
    const V last = L::Select(mask, L::Load(row + (two_vectors ? 16 : 0), mask), old);
    parts[r] = two_vectors ? L::Max(L::Max(old, L::Load(row)), last) : L::Max(old, last);
  }
  for (std::size_t r = 0; r < groups_end; r += 4) L::Largest4(parts + r, maxima + r);
  // A zero maximum is +0, independent of the sign of the zeros.
  for (std::size_t r = 0; r < groups_end; ++r) maxima[r] += 0.0f;

  // Exp never gives -0, so adding +0 in the lanes after the last cell does not change the partial
  // sums.
  for (std::size_t r = 0; r < row_count; ++r) {
    float* row = scores + r * score_stride;
    const V max = L::Set(maxima[r]);
    parts[r] = L::Zero();
    if (two_vectors) {
      const V e = L::Exp(L::Sub(L::Load(row), max));
      L::Store(row, e);
      parts[r] = e;
      row += 16;
    }
    const V e = L::Exp(L::Sub(L::Load(row, mask), max));
    L::Store(row, e, mask);
    parts[r] = L::Add(parts[r], L::Select(mask, e, L::Zero()));
  }
  for (std::size_t r = 0; r < groups_end; r += 4) L::Totals4(parts + r, sums + r);

  // Exp(0) is 1, so an unchanged maximum rescales by exactly 1.
  alignas(64) float factors[16];
  const V rescale = L::Exp(L::Sub(L::Load(old_maxima), L::Load(maxima)));
  L::Store(factors, rescale);
  L::Store(sums, L::Add(L::Mul(L::Load(old_sums), rescale), L::Load(sums)));
  for (std::size_t r = 0; r < row_count; ++r) {
    states[r] = {.max = maxima[r], .sum = sums[r]};
    rescales[r] = factors[r];
  }
}

template <class Isa>
void SoftmaxRows(float* scores, std::size_t score_stride, std::size_t row_count,
                 std::size_t cell_count, SoftmaxState* states, float* rescales) {
  for (std::size_t r = 0; r < row_count; r += 16) {
    const std::size_t rows = row_count - r < 16 ? row_count - r : 16;
    SoftmaxSixteen<Isa>(scores + r * score_stride, score_stride, rows, cell_count, states + r,
                        rescales + r);
  }
}

template <class Isa>
void MergeSoftmax(const SoftmaxState& other, const float* other_values, std::size_t dim,
                  SoftmaxState* state, float* values) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  if (other.sum == 0.0f) return;
  const bool first = state->sum == 0.0f;
  const float max = first || other.max > state->max ? other.max : state->max;
  const float own = first || state->max == max ? 1.0f : ExpOf<Isa>(state->max - max);
  const float others = other.max == max ? 1.0f : ExpOf<Isa>(other.max - max);
  state->sum = first ? other.sum : state->sum * own + other.sum * others;
  state->max = max;
  const auto merged = [&](V mine, V theirs) KVD_INLINE_LAMBDA {
    return first ? theirs : L::Fma(L::Set(others), theirs, L::Mul(mine, L::Set(own)));
  };
  std::size_t d = 0;
  for (; d + 16 <= dim; d += 16) {
    L::Store(values + d, merged(L::Load(values + d), L::Load(other_values + d)));
  }
  if (d < dim) {
    const auto mask = L::FirstLanes(dim - d);
    L::Store(values + d, merged(L::Load(values + d, mask), L::Load(other_values + d, mask)), mask);
  }
}

// ---- values

// The arguments of add_values, starting at one row and one element.
struct ValueRows {
  const std::uint8_t* v;
  std::size_t cell_bytes;
  std::size_t cell_count;
  const float* p;
  std::size_t p_stride;
  const float* rescales;  // null: all 1
  float* values;
  std::size_t value_stride;
};

// Computes the elements [0, 32 * kBlocks) of the values of kRows rows; the sums of all cells stay
// in registers.
template <class Isa, class D, int kRows, int kBlocks>
KVD_ALWAYS_INLINE void AddValueTile(const ValueRows& rows) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  V sums[kRows][2 * kBlocks];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<2 * kBlocks>([&](auto i) KVD_INLINE_LAMBDA {
      V& sum = sums[r.value][i.value];
      sum = L::Load(rows.values + r.value * rows.value_stride + 16 * i.value);
      if (rows.rescales != nullptr) sum = L::Mul(sum, L::Set(rows.rescales[r.value]));
    });
  });
  const std::uint8_t* v = rows.v;
  const float* p = rows.p;
  for (std::size_t c = 0; c < rows.cell_count; ++c, v += rows.cell_bytes, ++p) {
    StaticFor<kBlocks>([&](auto i) KVD_INLINE_LAMBDA {
      V a, b;
      D::template Pair<0>(D::Open(v + i.value * D::kBytes), &a, &b);
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        const V weight = L::Set(p[r.value * rows.p_stride]);
        V(&row)[2 * kBlocks] = sums[r.value];
        row[2 * i.value] = L::Fma(weight, a, row[2 * i.value]);
        row[2 * i.value + 1] = L::Fma(weight, b, row[2 * i.value + 1]);
      });
    });
  }
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<2 * kBlocks>([&](auto i) KVD_INLINE_LAMBDA {
      L::Store(rows.values + r.value * rows.value_stride + 16 * i.value, sums[r.value][i.value]);
    });
  });
}

// Computes the last n < 32 elements of the values of one row, for a type without blocks.
template <class Isa, class D>
KVD_ALWAYS_INLINE void AddValueRest(const ValueRows& rows, std::size_t n) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::uint8_t* v = rows.v;
  float* values = rows.values;
  while (n != 0) {
    const std::size_t count = n < 16 ? n : 16;
    const auto mask = L::FirstLanes(count);  // unused for a whole group
    V sum = count == 16 ? L::Load(values) : L::Load(values, mask);
    if (rows.rescales != nullptr) sum = L::Mul(sum, L::Set(*rows.rescales));
    for (std::size_t c = 0; c < rows.cell_count; ++c) {
      const std::uint8_t* cell = v + c * rows.cell_bytes;
      sum = L::Fma(L::Set(rows.p[c]), count == 16 ? D::Group(cell) : D::Group(cell, count), sum);
    }
    if (count == 16) {
      L::Store(values, sum);
    } else {
      L::Store(values, sum, mask);
    }
    v += count * D::kElementBytes;
    values += count;
    n -= count;
  }
}

// Computes all elements of the values of kRows rows.
template <class Isa, class D, int kRows>
KVD_ALWAYS_INLINE void AddValueRows(ValueRows rows, std::size_t dim) {
  constexpr int kBlocks = Isa::Lanes::ValueBlocks(kRows);
  std::size_t d = 0;
  const auto advance = [&](int blocks) KVD_INLINE_LAMBDA {
    rows.v += D::kBytes * static_cast<std::size_t>(blocks);
    rows.values += 32 * blocks;
  };
  for (; d + 32 * kBlocks <= dim; d += 32 * kBlocks) {
    AddValueTile<Isa, D, kRows, kBlocks>(rows);
    advance(kBlocks);
  }
  if constexpr (kBlocks > 1) {
    for (; d + 32 <= dim; d += 32) {
      AddValueTile<Isa, D, kRows, 1>(rows);
      advance(1);
    }
  }
  if constexpr (D::kPlain) {
    for (int r = 0; d < dim && r < kRows; ++r) {
      AddValueRest<Isa, D>(rows, dim - d);
      rows.p += rows.p_stride;
      if (rows.rescales != nullptr) ++rows.rescales;
      rows.values += rows.value_stride;
    }
  }
}

template <class Isa>
void AddValues(DataType v_type, const void* v, std::size_t v_stride, std::size_t cell_count,
               std::size_t dim, const float* p, std::size_t p_stride, const float* rescales,
               std::size_t row_count, float* values, std::size_t value_stride) {
  constexpr int kRowsMax = Isa::Lanes::kValueRowsMax;
  WithCellDecoder<Isa>(v_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    using D = decltype(decoder);
    const std::size_t tile_count = (row_count + kRowsMax - 1) / kRowsMax;
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = row_count * t / tile_count;
      const std::size_t rows = row_count * (t + 1) / tile_count - row;
      const ValueRows tile = {.v = static_cast<const std::uint8_t*>(v),
                              .cell_bytes = v_stride,
                              .cell_count = cell_count,
                              .p = p + row * p_stride,
                              .p_stride = p_stride,
                              .rescales = rescales == nullptr ? nullptr : rescales + row,
                              .values = values + row * value_stride,
                              .value_stride = value_stride};
      StaticFor<kRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
        constexpr int kRows = decltype(r)::value + 1;
        if (rows == kRows) AddValueRows<Isa, D, kRows>(tile, dim);
      });
    }
  });
}

}  // namespace kvd::kernels
