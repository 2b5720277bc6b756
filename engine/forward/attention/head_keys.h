// HeadKeys: the keys and values of one head of one text in f32. Keys are stored by key and values
// by dimension, so that both products of attention read dense rows (docs/decisions/0017).
//
// Owner: the unit of work that computes with the head. The rows of a HeadKeys are in the thread's
// scratch, so a thread can have only one HeadKeys at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/kernel_table.h"

namespace kvd {

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

}  // namespace kvd
