// What the amx table does in its own way; the rest of it is the avx512 table.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::amx {

// Configures the thread's tiles and releases them.
void Matmul(const MatmulArgs& args);

// Of Bf16Attention; its panels and its softmax are those of avx512bf16. They leave the thread's tiles
// configured, for the next call. Without a call of Matmul they stay so, which costs a switch of threads
// some kilobytes more to save.
void Scores(const void* panel, std::size_t cell_count, std::size_t dim, const void* q,
            std::size_t row_count, float scale, float* scores, std::size_t score_stride);
void AddValues(const void* panel, std::size_t first, std::size_t end, std::size_t dim,
               const std::uint16_t* p, const float* rescales, std::size_t row_count, float* values,
               std::size_t value_stride);

// To be called by whoever else configures or releases tiles.
void ForgetHeldShapes();

}  // namespace kvd::kernels::amx
