// Compute: what a layer needs to compute: the kernel table, the threads, and one private workspace
// per thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/forward/compute/float_buffer.h"
#include "engine/forward/compute/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

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
