// The functions that the amx table replaces; its other functions are those of the avx512 table.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::amx {

// The smallest number of rows for which decoding quantised weights to bf16 tiles is faster than
// products of integers.
inline constexpr std::size_t kBf16QuantRowsMin = 64;

// Configures the thread's tiles and releases them.
void Matmul(const MatmulArgs& args);

// The functions of Bf16Attention that use tiles; panels and softmax are those of avx512bf16. Scores
// and AddValues leave the thread's tiles configured for the next call. The tiles stay configured
// until the thread calls Matmul; until then, each thread switch saves some kilobytes more.
void Scores(const void* panel, std::size_t cell_count, std::size_t dim, const void* q,
            std::size_t row_count, float scale, float* scores, std::size_t score_stride);
void AddValues(const void* panel, std::size_t first, std::size_t end, std::size_t dim,
               const std::uint16_t* p, const float* rescales, std::size_t row_count, float* values,
               std::size_t value_stride);

// Must be called after any other code configures or releases the thread's tiles.
void ForgetHeldShapes();

}  // namespace kvd::kernels::amx
