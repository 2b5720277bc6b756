// Loops that the compiler unrolls before anything else, so that arrays of vectors stay in
// registers.
//
// RULE for everything under kernels/lanes: it is included by files with special -m flags, so each
// function is a template over a type of one instruction set (kvd::kernels::avx2 or avx512). Its
// symbol then names the set, and the linker can never pick a copy compiled for one machine on
// behalf of another. Of std:: there are types only, never functions.
#pragma once

#include <utility>

#define KVD_ALWAYS_INLINE inline __attribute__((always_inline))

namespace kvd::kernels {

template <int kValue>
struct Int {
  static constexpr int value = kValue;
};

template <class F, int... kIndices>
KVD_ALWAYS_INLINE void StaticForEach(std::integer_sequence<int, kIndices...>, const F& body) {
  (body(Int<kIndices>{}), ...);
}

// body(Int<0>{}), ..., body(Int<kCount - 1>{}). `body` is a lambda marked always_inline.
template <int kCount, class F>
KVD_ALWAYS_INLINE void StaticFor(const F& body) {
  StaticForEach(std::make_integer_sequence<int, kCount>{}, body);
}

// The attribute for the lambdas given to StaticFor.
#define KVD_INLINE_LAMBDA __attribute__((always_inline))

}  // namespace kvd::kernels
