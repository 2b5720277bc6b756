// The limits of one render, and the time that it sees.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

namespace kvd::jinja {

struct RenderOptions {
  // Evaluated expressions and executed statements, and what filters do for each item.
  std::uint64_t steps_max = 10'000'000;
  // Of the result; also of each text that a macro or a set block makes.
  std::uint64_t output_bytes_max = 64u << 20;
  // Of all values that the render makes, including those that it drops again.
  std::uint64_t value_bytes_max = 256u << 20;
  // Levels of expressions, statements and calls that are being evaluated at once. A level takes
  // about 1 KiB of the thread's stack.
  std::uint32_t depth_max = 1000;
  // What strftime_now() formats; none: the local time.
  std::optional<std::tm> now = std::nullopt;
};

}  // namespace kvd::jinja
