// Compute: what a layer needs to compute: the kernel table, the threads, and one private workspace
// per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/forward/compute/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

// Memory for activations and workspaces.

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

class StepProfile;

struct Compute {
  const kernels::KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  bool exact = false;  // --deterministic: one numeric form everywhere (kernels/kernel_table.h)
  kernels::ProductChoices choices;   // ignored if exact
  float* workspaces = nullptr;       // [thread_count, workspace_floats]
  std::size_t workspace_floats = 0;  // a multiple of 16

  // Inputs of linear layers in their quantised or rounded form; shared by the threads.
  std::byte* inputs = nullptr;
  std::size_t input_bytes = 0;  // LinearInputBytes (engine/forward/compute/linear.h)

  // If the rows of a pass are only a portion of a text: the number of rows of the whole text, which
  // determines the numeric form of matrix products. 0: the pass has all rows of its texts.
  std::size_t form_rows = 0;

  StepProfile* profile = nullptr;  // null: time is not measured

  float* workspace(std::uint32_t worker) const { return workspaces + worker * workspace_floats; }
};

}  // namespace kvd
