// A program whose binary shows each hardening flag of cmake/options.cmake. The tests build it once
// with all flags, and once without each of them.
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// The function is not inlined. The large stack frame of the function is probed, its array is
// guarded, and its copy of unknown length is checked.
[[gnu::noinline]] int Fill(const char* text, std::size_t bytes) {
  char large[1 << 16];
  std::memcpy(large, text, bytes);
  large[bytes] = '\0';
  return std::puts(large);
}

[[gnu::noinline]] int At(const std::vector<int>& numbers, std::size_t index) {
  return numbers[index];
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::vector<int> numbers(static_cast<std::size_t>(argument_count), 1);
  return Fill(arguments[0], std::strlen(arguments[0])) + At(numbers, 0) == 0;
}
