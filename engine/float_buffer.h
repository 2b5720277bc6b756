// Memory for activations and workspaces.
#pragma once

#include <cstddef>
#include <memory>

namespace kvd {

// Floats aligned to a cache line, allocated once, not initialised; those of 2 MiB and more are aligned
// to large pages, and the system is asked for such.
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
