#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> g_allocation_count{0};
}  // namespace

std::size_t kvd::AllocationCount() { return g_allocation_count; }

void* operator new(std::size_t bytes) {
  ++g_allocation_count;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocation_count;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
