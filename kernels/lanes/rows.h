// Operations on rows of f32, sixteen lanes at a time.
#pragma once

#include <cstddef>

#include "kernels/form_constants.h"
#include "kernels/gelu_table.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

// Calls body(load, store) for each group of sixteen elements from j: load(p) returns the existing
// lanes of p + j, store(p, v) writes them.
template <class Isa, class F>
KVD_ALWAYS_INLINE void ForGroups(std::size_t n, const F& body) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  std::size_t j = 0;
  for (; j + 16 <= n; j += 16) {
    body([&](const float* from) KVD_INLINE_LAMBDA { return L::Load(from + j); },
         [&](float* to, V v) KVD_INLINE_LAMBDA { L::Store(to + j, v); });
  }
  if (j < n) {
    const auto mask = L::FirstLanes(n - j);
    body([&](const float* from) KVD_INLINE_LAMBDA { return L::Load(from + j, mask); },
         [&](float* to, V v) KVD_INLINE_LAMBDA { L::Store(to + j, v, mask); });
  }
}

template <class Isa>
void RmsNorm(const float* x, const float* weight, std::size_t n, float epsilon, float* y) {
  using L = typename Isa::Lanes;
  if (n == 0) return;
  typename L::Doubles squares = L::ZeroDoubles();
  std::size_t j = 0;
  for (; j + 16 <= n; j += 16) L::AddSquares(L::Load(x + j), &squares);
  if (j < n) L::AddSquares(L::Load(x + j, L::FirstLanes(n - j)), &squares);
  const float mean = static_cast<float>(L::Total(squares)) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + epsilon);
  ForGroups<Isa>(n, [&](auto load, auto store) KVD_INLINE_LAMBDA {
    store(y, L::Mul(L::Mul(load(x), L::Set(inverse)), load(weight)));
  });
}

template <class Isa>
void Rope(float* x, std::size_t head_count, std::size_t head_dim, std::size_t rotated_dim,
          bool interleaved, const float* cosine, const float* sine) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::size_t half = rotated_dim / 2;
  for (std::size_t h = 0; h < head_count; ++h, x += head_dim) {
    std::size_t i = 0;
    for (; i + 16 <= half; i += 16) {
      const V c = L::Load(cosine + i), s = L::Load(sine + i);
      float* at_a = x + (interleaved ? 2 * i : i);
      float* at_b = interleaved ? at_a + 16 : at_a + half;
      V a = L::Load(at_a), b = L::Load(at_b);
      if (interleaved) L::Deinterleave(&a, &b);
      V rotated_a = L::Sub(L::Mul(a, c), L::Mul(b, s));
      V rotated_b = L::Add(L::Mul(a, s), L::Mul(b, c));
      if (interleaved) L::Interleave(&rotated_a, &rotated_b);
      L::Store(at_a, rotated_a);
      L::Store(at_b, rotated_b);
    }
    for (; i < half; ++i) {
      float* at_a = x + (interleaved ? 2 * i : i);
      float* at_b = interleaved ? at_a + 1 : at_a + half;
      const float a = *at_a, b = *at_b;
      *at_a = a * cosine[i] - b * sine[i];
      *at_b = a * sine[i] + b * cosine[i];
    }
  }
}

template <class Isa>
void SiluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  ForGroups<Isa>(n, [&](auto load, auto store) KVD_INLINE_LAMBDA {
    const V g = load(gate);
    store(y, L::Mul(L::Div(g, L::Add(L::Set(1.0f), L::Exp(L::Negate(g)))), load(up)));
  });
}

template <class Isa>
void GeluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::uint16_t* table = GeluTable();
  ForGroups<Isa>(n, [&](auto load, auto store) KVD_INLINE_LAMBDA {
    const V g = load(gate);
    const V beyond = L::Max(L::Set(0.0f), L::Sub(g, L::Set(kGeluBound)));
    const V inside = L::Max(L::Set(-kGeluBound), L::Min(L::Set(kGeluBound), g));
    const V gelu = L::LookedUpAsF16(inside, table);
    store(y, L::Mul(L::Add(gelu, beyond), load(up)));
  });
}

template <class Isa>
void Softcap(const float* x, float cap, std::size_t n, float* y) {
  using L = typename Isa::Lanes;
  const float inverse = 1.0f / cap;
  ForGroups<Isa>(n, [&](auto load, auto store) KVD_INLINE_LAMBDA {
    store(y, L::Mul(L::Tanh(L::Mul(load(x), L::Set(inverse))), L::Set(cap)));
  });
}

template <class Isa>
void Add(const float* a, const float* b, std::size_t n, float* y) {
  using L = typename Isa::Lanes;
  ForGroups<Isa>(
      n, [&](auto load, auto store) KVD_INLINE_LAMBDA { store(y, L::Add(load(a), load(b))); });
}

template <class Isa>
void Scale(const float* a, float factor, std::size_t n, float* y) {
  using L = typename Isa::Lanes;
  ForGroups<Isa>(n, [&](auto load, auto store)
                        KVD_INLINE_LAMBDA { store(y, L::Mul(load(a), L::Set(factor))); });
}

template <class Isa>
bool AllFinite(const float* x, std::size_t n) {
  unsigned bits = 0;
  ForGroups<Isa>(n, [&](auto load, auto /*store*/)
                        KVD_INLINE_LAMBDA { bits |= Isa::Lanes::NotFiniteBits(load(x)); });
  return bits == 0;
}

// Finds the largest value, then its first index; both passes read the row sequentially. REQUIRES: n
// > 0.
template <class Isa>
std::size_t Argmax(const float* x, std::size_t n) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  V maxima[4] = {L::Set(x[0]), L::Set(x[0]), L::Set(x[0]), L::Set(x[0])};
  std::size_t j = 0;
  for (; j + 64 <= n; j += 64) {
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      maxima[i.value] = L::Max(maxima[i.value], L::Load(x + j + 16 * i.value));
    });
  }
  float max = L::Largest(L::Max(L::Max(maxima[0], maxima[1]), L::Max(maxima[2], maxima[3])));
  for (; j < n; ++j) max = x[j] > max ? x[j] : max;
  const V largest = L::Set(max);
  for (j = 0; j + 16 <= n; j += 16) {
    const unsigned bits = L::EqualBits(L::Load(x + j), largest);
    if (bits != 0) return j + static_cast<std::size_t>(__builtin_ctz(bits));
  }
  for (; j < n; ++j) {
    if (x[j] == max) return j;
  }
  return 0;  // the first element was a NaN, so there is no maximum
}

}  // namespace kvd::kernels
