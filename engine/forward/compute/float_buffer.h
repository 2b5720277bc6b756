// Memory for activations and workspaces.
#pragma once

#include <cstddef>
#include <memory>

namespace kvd {

// Floats that are aligned to a cache line, allocated once and not initialised. A buffer of 2 MiB or
// more is aligned to large pages, and the kernel is asked to use large pages for it.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(std::size_t float_count);
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> data_;
};

}  // namespace kvd
