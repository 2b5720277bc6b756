// A program in which each flag of cmake/options.cmake that hardens leaves its trace. The tests build
// it once with all of them and once without each.
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// Not inlined: large frames are probed, arrays guarded, copies of unknown length checked.
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
