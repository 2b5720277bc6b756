// Attention of a text's tokens to each other: scaled, as in bert, and with a bias by distance, as
// in t5.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "engine/forward/compute/compute.h"
#include "engine/model/position_bias.h"
#include "kernels/kernel_table.h"

namespace kvd {

// HeadKeys: the keys and values of one head of one text in f32. Keys are stored by key and values
// by dimension, so that both products of attention read dense rows (docs/decisions/0017).
//
// Owner: the unit of work that computes with the head. The rows of a HeadKeys are in the thread's
// scratch, so a thread can have only one HeadKeys at a time.

// `count` is the number of keys and `width` the length of a row of scores. If `width` is a multiple
// of kLanes, sums over keys are computed in kLanes lanes. Attention over the sequence's own cells
// uses the number of cells, rounded up to a multiple of kLanes, as width. Attention over a whole
// text uses the number of tokens as width.
class HeadKeys {
 public:
  static constexpr std::size_t kLanes = 16;

  HeadKeys(const kernels::KernelTable& kernels, std::size_t count, std::size_t width,
           std::size_t dim)
      : kernels_(kernels), scratch_(ThreadScratch()), count_(count), width_(width), dim_(dim) {
    scratch_.k.resize(count * dim);
    scratch_.v.assign(width * dim, 0.0f);
    scratch_.scores.resize(width);
  }

  // The row of key `i`, which the caller fills.
  float* key(std::size_t i) { return scratch_.k.data() + i * dim_; }
  void SetValue(std::size_t i, const float* value) {
    for (std::size_t d = 0; d < dim_; ++d) scratch_.v[d * width_ + i] = value[d];
  }

  // out = the values of keys [0, seen), weighted by softmax(q . k + bias_of(key)).
  template <class BiasOf>
  void Attend(const float* q, std::size_t seen, const BiasOf& bias_of, float* out) {
    float* const scores = scratch_.scores.data();
    kernels_.plain_dots(q, scratch_.k.data(), dim_, seen, dim_, scores);
    for (std::size_t i = 0; i < seen; ++i) scores[i] += bias_of(i);
    std::fill(scores + seen, scores + width_, kUnseen);
    kernels_.plain_softmax(scores, width_, width_ / kLanes * kLanes);
    const float* v = scratch_.v.data();
    if (width_ % kLanes != 0) return kernels_.plain_dots(scores, v, width_, dim_, width_, out);
    kernels_.lane_dots(scores, v, width_, dim_, width_, out);
  }

  std::size_t count() const { return count_; }

 private:
  static constexpr float kUnseen = -std::numeric_limits<float>::infinity();

  // The buffers of a thread, which grow to the longest text and keep their size.
  struct Scratch {
    std::vector<float> k;       // [count, dim]
    std::vector<float> v;       // [dim, width]
    std::vector<float> scores;  // [width]
  };
  static Scratch& ThreadScratch() {
    thread_local Scratch scratch;
    return scratch;
  }

  const kernels::KernelTable& kernels_;
  Scratch& scratch_;
  const std::size_t count_;
  const std::size_t width_;
  const std::size_t dim_;
};

// Attention of a text's tokens to each other (Vaswani et al. 2017; Devlin et al. 2018). A token
// sees all tokens of the text, the tokens up to itself, or the tokens near it. Keys and values are
// f32 and are not cached.
//
// Keys and values are packed by head: [kv_head_count, key_count, head_dim]. Softmax and weighted
// values are summed online by runs of 32 keys, counted from the first key of the text. A row's
// result therefore depends on the row's text only.
struct TextAttentionShape {
  std::size_t head_count = 0;
  std::size_t kv_head_count = 0;  // divides head_count
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  float scale = 1.0f;
  // The position in the text of the first query; the others follow it.
  std::size_t first_query = 0;
  // A query sees keys from `reach_before` positions before it to `reach_after` positions after it.
  std::size_t reach_before = kUnlimited;
  std::size_t reach_after = kUnlimited;
  // Per head: the score of a key at distance d is lowered by slope * d (Press et al. 2022). Empty:
  // by nothing.
  std::span<const float> slopes{};

  static constexpr std::size_t kUnlimited = static_cast<std::size_t>(-1);
};

// Slopes of the heads for a greatest bias (Press et al. 2022; ggml's soft_max_ext): with n the
// largest power of two in head_count, 2^(-bias_max (h + 1) / n) for h < n, then 2^(-bias_max / 2 *
// (2 (h - n) + 1) / n).
std::vector<float> DistanceSlopes(std::size_t head_count, float bias_max);

// The place of rows among packed rows.
struct PackedRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;  // number of all packed rows
};
// Copies rows [row_count, head_count * head_dim] into packed [head_count, where.row_count,
// head_dim], starting at row where.first_row of each head.
void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed);

// Floats of workspace that the attention of a text needs per thread.
std::size_t TextAttentionWorkspaceFloats(std::size_t head_dim);

// q and out: [query_count, head_count * head_dim]; k and v: packed. REQUIRES: key_count > 0; the
// queries are at positions of the text, or have unlimited reach.
void RunTextAttention(const Compute& compute, const TextAttentionShape& shape,
                      std::size_t query_count, const float* q, const float* k, const float* v,
                      float* out);

// Attention of t5's encoder. Scores are not scaled but get a bias by distance, and nothing is
// rotated.
//
// All scores of a query are computed before one softmax, and the weights are normalised before they
// are multiplied with the values. Computing all scores first requires that texts are short. The
// order of every sum is that of ggml's CPU backend without flash attention, so results equal ggml's
// bit for bit. Equality of every bit matters because kvd and ggml round the input of GELU to f16,
// where a difference of one bit becomes visible (docs/decisions/0017). A row's result depends on
// the row's sequence only.

// Queries of rows [first_row, first_row + row_count) of a text of key_count tokens.
struct PlainTextShape {
  std::size_t head_count = 0;
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  std::size_t first_row = 0;
  std::size_t row_count = 0;
};

// Every row sees the whole text. q and out: [row_count, head_count * head_dim]; k and v:
// [key_count, head_count * head_dim]. bias: from EncoderBias.
void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out);

}  // namespace kvd
