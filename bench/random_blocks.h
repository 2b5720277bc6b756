// Inputs of the benches of kernels: buffers that begin at a page, random floats, and random blocks
// of each weight type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/data_type.h"

namespace kvd::bench {

template <class T>
struct FreeDeleter {
  void operator()(T* p) const { std::free(p); }
};
template <class T>
using Buffer = std::unique_ptr<T[], FreeDeleter<T>>;
template <class T>
Buffer<T> AlignedBuffer(std::size_t count) {
  const std::size_t bytes = (count * sizeof(T) + 4095) / 4096 * 4096 + 4096;
  Buffer<T> buffer(static_cast<T*>(std::aligned_alloc(4096, bytes)));
  if (buffer == nullptr) std::abort();
  std::memset(buffer.get(), 0, bytes);
  return buffer;
}

void FillFloats(float* to, std::size_t count);

// Fills `to` with random blocks of a type; the scales of the blocks are finite.
void FillBlocks(kernels::DataType type, std::uint8_t* to, std::size_t bytes);

}  // namespace kvd::bench
