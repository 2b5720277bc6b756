#include "engine/forward/compute/compute.h"

#include <sys/mman.h>
#include <cstdlib>
#include <new>

#include "base/rounding.h"

namespace kvd {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

}  // namespace

FloatBuffer::FloatBuffer(std::size_t float_count) {
  std::size_t bytes = float_count * sizeof(float);
  const std::size_t alignment = bytes >= kLargePage ? kLargePage : kCacheLine;
  bytes = RoundUp(bytes, alignment);
  data_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
  if (data_ == nullptr && bytes != 0) throw std::bad_alloc();
  // madvise is only a request: if the system has no large pages to give, the buffer uses small
  // pages.
  if (alignment == kLargePage) (void)::madvise(data_.get(), bytes, MADV_HUGEPAGE);
}

void FloatBuffer::Free::operator()(float* p) const { std::free(p); }

}  // namespace kvd
