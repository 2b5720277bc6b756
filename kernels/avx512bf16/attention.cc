// Attention over a run with products of pairs of bf16: a score adds products of pairs of elements,
// and a weighted value adds products of pairs of cells.
#include "kernels/avx512bf16/cell_panels.h"
#include "kernels/avx512bf16/functions.h"
#include "kernels/avx512bf16/pairs.h"

namespace kvd::kernels::avx512bf16 {
namespace {

constexpr int kScoreRows = 12;  // of a tile of 32 cells
constexpr int kValueRows = 4, kValueVectors = 4;
// 2^r for |r| <= 0.5, relative error below 2^-13: minimax polynomial of degree 3.
constexpr float kC0 = 0.99992807f, kC1 = 0.69326099f, kC2 = 0.24261112f, kC3 = 0.05517167f;

KVD_ALWAYS_INLINE I LoadPairs(const std::uint8_t* from) { return _mm512_loadu_si512(from); }
KVD_ALWAYS_INLINE I SetPair(const std::uint8_t* from) {
  float pair = 0;
  __builtin_memcpy(&pair, from, sizeof pair);
  return _mm512_castps_si512(_mm512_set1_ps(pair));
}

// Computes the scores of kVectors * 16 cells for kRows rows. Of the last vector of scores only
// `tail` cells are written (0: all).
template <int kRows, int kVectors>
KVD_ALWAYS_INLINE void ScoreTile(const std::uint8_t* panel, std::size_t tail,
                                 std::size_t pair_count, const std::uint8_t* q,
                                 std::size_t q_stride, float scale, float* scores,
                                 std::size_t score_stride) {
  V sums[kRows][kVectors];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA { sums[r.value][i.value] = Lanes::Zero(); });
  });
  for (std::size_t p = 0; p < pair_count; ++p, panel += kRunCells * kPairBytes, q += kPairBytes) {
    I keys[kVectors];
    StaticFor<kVectors>([&](auto i)
                            KVD_INLINE_LAMBDA { keys[i.value] = LoadPairs(panel + 64 * i.value); });
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const I x = SetPair(q + r.value * q_stride);
      StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
        sums[r.value][i.value] = AddPairs(sums[r.value][i.value], keys[i.value], x);
      });
    });
  }
  const Lanes::Mask last = tail == 0 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(tail);
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
      Lanes::Store(scores + r.value * score_stride + 16 * i.value,
                   Lanes::Mul(Lanes::Set(scale), sums[r.value][i.value]),
                   i.value + 1 < kVectors ? Lanes::Mask{0xffff} : last);
    });
  });
}

void Scores(const void* panel, std::size_t cell_count, std::size_t dim, const void* q,
            std::size_t row_count, float scale, float* scores, std::size_t score_stride) {
  const auto* const keys = static_cast<const std::uint8_t*>(panel);
  const std::size_t q_stride = Bf16RowBytes(dim), pair_count = (dim + 1) / 2;
  const std::size_t tail = cell_count % 16;
  const std::size_t tile_count = (row_count + kScoreRows - 1) / kScoreRows;
  for (std::size_t t = 0; t < tile_count; ++t) {
    const std::size_t row = row_count * t / tile_count;
    const std::size_t rows = row_count * (t + 1) / tile_count - row;
    const std::uint8_t* from = static_cast<const std::uint8_t*>(q) + row * q_stride;
    float* to = scores + row * score_stride;
    StaticFor<kScoreRows>([&](auto r) KVD_INLINE_LAMBDA {
      constexpr int kRows = decltype(r)::value + 1;
      if (rows != kRows) return;
      if (cell_count > 16) {
        ScoreTile<kRows, 2>(keys, tail, pair_count, from, q_stride, scale, to, score_stride);
      } else {
        ScoreTile<kRows, 1>(keys, tail, pair_count, from, q_stride, scale, to, score_stride);
      }
    });
  }
}

// e^x for x <= 0, relative error below 2^-13: 2^t * 2^r with a polynomial for the fraction r.
KVD_ALWAYS_INLINE V ShortExp(V x) {
  const V y = Lanes::Mul(x, Lanes::Set(kLog2E));
  const V t = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const V r = Lanes::Sub(y, t);
  V p = Lanes::Fma(r, Lanes::Set(kC3), Lanes::Set(kC2));
  p = Lanes::Fma(p, r, Lanes::Set(kC1));
  p = Lanes::Fma(p, r, Lanes::Set(kC0));
  return _mm512_scalef_ps(p, t);
}

// Computes the softmax of at most sixteen rows. Operations across lanes are done for all rows at
// once.
KVD_ALWAYS_INLINE void SoftmaxSixteen(const float* scores, std::size_t score_stride,
                                      std::size_t row_count, std::size_t first, std::size_t end,
                                      SoftmaxState* states, float* rescales, std::uint16_t* p) {
  const std::uint32_t seen = (end < 32 ? (1u << end) - 1u : ~0u) & (~0u << first);
  const auto low = static_cast<Lanes::Mask>(seen), high = static_cast<Lanes::Mask>(seen >> 16);
  const std::size_t groups_end = (row_count + 3) / 4 * 4;
  V parts[16];
  alignas(64) float old_maxima[16] = {}, old_sums[16] = {}, maxima[16] = {}, sums[16] = {};
  alignas(64) float factors[16];
  for (std::size_t r = row_count; r < groups_end; ++r) parts[r] = Lanes::Zero();
  for (std::size_t r = 0; r < row_count; ++r) {
    old_maxima[r] = states[r].max;
    old_sums[r] = states[r].sum;
    const float* const row = scores + r * score_stride;
    const V old = Lanes::Set(states[r].max);
    const V a = Lanes::Select(low, Lanes::Load(row, low), old);
    const V b = Lanes::Select(high, Lanes::Load(row + 16, high), old);
    parts[r] = Lanes::Max(old, Lanes::Max(a, b));
  }
  for (std::size_t r = 0; r < groups_end; r += 4) Lanes::Largest4(parts + r, maxima + r);

  const I ones = _mm512_set1_epi32(0x3f803f80);
  for (std::size_t r = 0; r < row_count; ++r) {
    const float* const row = scores + r * score_stride;
    const V max = Lanes::Set(maxima[r]);
    const V a = ShortExp(Lanes::Sub(Lanes::Load(row, low), max));
    const V b = ShortExp(Lanes::Sub(Lanes::Load(row + 16, high), max));
    const I weights = _mm512_maskz_mov_epi16(seen, Round::Of(a, b));
    _mm512_storeu_si512(p + r * kRunCells, weights);
    parts[r] = AddPairs(Lanes::Zero(), weights, ones);
  }
  for (std::size_t r = 0; r < groups_end; r += 4) Lanes::Totals4(parts + r, sums + r);

  const V rescale = Lanes::Exp(Lanes::Sub(Lanes::Load(old_maxima), Lanes::Load(maxima)));
  Lanes::Store(factors, rescale);
  Lanes::Store(sums, Lanes::Fma(Lanes::Load(old_sums), rescale, Lanes::Load(sums)));
  for (std::size_t r = 0; r < row_count; ++r) {
    states[r] = {.max = maxima[r], .sum = sums[r]};
    rescales[r] = factors[r];
  }
}

void SoftmaxRows(const float* scores, std::size_t score_stride, std::size_t row_count,
                 std::size_t first, std::size_t end, SoftmaxState* states, float* rescales,
                 std::uint16_t* p) {
  for (std::size_t r = 0; r < row_count; r += 16) {
    const std::size_t rows = row_count - r < 16 ? row_count - r : 16;
    SoftmaxSixteen(scores + r * score_stride, score_stride, rows, first, end, states + r,
                   rescales + r, p + r * kRunCells);
  }
}

// Computes kVectors * 16 elements of the values of kRows rows; of the last vector only `tail`
// elements exist (0: all).
template <int kRows, int kVectors>
KVD_ALWAYS_INLINE void ValueTile(const std::uint8_t* panel, std::size_t panel_row,
                                 std::size_t pair_count, const std::uint8_t* p,
                                 const float* rescales, std::size_t tail, float* values,
                                 std::size_t value_stride) {
  const Lanes::Mask last = tail == 0 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(tail);
  const auto mask = [&](int i)
                        KVD_INLINE_LAMBDA { return i + 1 < kVectors ? Lanes::Mask{0xffff} : last; };
  V sums[kRows][kVectors];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
      sums[r.value][i.value] =
          Lanes::Mul(Lanes::Load(values + r.value * value_stride + 16 * i.value, mask(i.value)),
                     Lanes::Set(rescales[r.value]));
    });
  });
  for (std::size_t c = 0; c < pair_count; ++c, panel += panel_row, p += kPairBytes) {
    I v[kVectors];
    StaticFor<kVectors>([&](auto i)
                            KVD_INLINE_LAMBDA { v[i.value] = LoadPairs(panel + 64 * i.value); });
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const I weight = SetPair(p + r.value * kRunCells * sizeof(std::uint16_t));
      StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
        sums[r.value][i.value] = AddPairs(sums[r.value][i.value], v[i.value], weight);
      });
    });
  }
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kVectors>([&](auto i) KVD_INLINE_LAMBDA {
      Lanes::Store(values + r.value * value_stride + 16 * i.value, sums[r.value][i.value],
                   mask(i.value));
    });
  });
}

void AddValues(const void* panel, std::size_t first, std::size_t end, std::size_t dim,
               const std::uint16_t* p, const float* rescales, std::size_t row_count, float* values,
               std::size_t value_stride) {
  const std::size_t first_pair = first / 2, pair_count = (end + 1) / 2 - first_pair;
  const std::size_t panel_row = ValuePanelRowBytes(dim);
  const auto* const pairs = static_cast<const std::uint8_t*>(panel) + first_pair * panel_row;
  const auto* const weights = reinterpret_cast<const std::uint8_t*>(p + 2 * first_pair);
  for (std::size_t row = 0; row < row_count; row += kValueRows) {
    const std::size_t rows = row_count - row < kValueRows ? row_count - row : kValueRows;
    const std::uint8_t* from = weights + row * kRunCells * sizeof(std::uint16_t);
    for (std::size_t d = 0; d < dim; d += 16 * kValueVectors) {
      const std::size_t left = dim - d < 16 * kValueVectors ? dim - d : 16 * kValueVectors;
      const std::size_t vectors = (left + 15) / 16;
      StaticFor<kValueRows>([&](auto r) KVD_INLINE_LAMBDA {
        constexpr int kRows = decltype(r)::value + 1;
        if (rows != kRows) return;
        StaticFor<kValueVectors>([&](auto i) KVD_INLINE_LAMBDA {
          constexpr int kVectors = decltype(i)::value + 1;
          if (vectors != kVectors) return;
          ValueTile<kRows, kVectors>(pairs + d * kPairBytes, panel_row, pair_count, from,
                                     rescales + row, left % 16, values + row * value_stride + d,
                                     value_stride);
        });
      });
    }
  }
}

void KeyPanel(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
              void* panel) {
  WithCellDecoder<avx512::Isa>(k_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    KeyPanelOf<decltype(decoder)>(static_cast<const std::uint8_t*>(k), cell_count, dim,
                                  static_cast<std::uint8_t*>(panel));
  });
}

void ValuePanel(DataType v_type, const void* v, std::size_t v_stride, std::size_t first,
                std::size_t end, std::size_t dim, void* panel) {
  WithCellDecoder<avx512::Isa>(v_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    ValuePanelOf<decltype(decoder)>(static_cast<const std::uint8_t*>(v), v_stride, first, end, dim,
                                    static_cast<std::uint8_t*>(panel));
  });
}

}  // namespace

const Bf16Attention kAttention = {
    .key_panel = KeyPanel,
    .scores = Scores,
    .softmax_rows = SoftmaxRows,
    .value_panel = ValuePanel,
    .add_values = AddValues,
};

}  // namespace kvd::kernels::avx512bf16
