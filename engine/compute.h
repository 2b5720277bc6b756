// What a layer needs to compute: the kernel table, the threads, and one private workspace per
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/float_buffer.h"
#include "engine/thread_pool.h"
#include "kernels/kernel_table.h"

namespace kvd {

class StepProfile;

struct Compute {
  const kernels::KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  bool exact = false;  // --deterministic: the numeric form of kernels/kernel_table.h everywhere
  float* workspaces = nullptr;       // [thread_count, workspace_floats]
  std::size_t workspace_floats = 0;  // a multiple of 16

  std::byte* inputs = nullptr;  // inputs of linear layers, shared by the threads
  std::size_t input_bytes = 0;  // LinearInputBytes (engine/layers/linear.h)

  // Rows of which those at hand are a portion: products take the form that suits so many. 0: those at
  // hand are all.
  std::size_t form_rows = 0;

  StepProfile* profile = nullptr;  // null: nobody looks where the time goes

  float* workspace(std::uint32_t worker) const { return workspaces + worker * workspace_floats; }
};

}  // namespace kvd
