// Counts what a render uses and refuses what exceeds the limits. Every value that a render makes
// with a size that the template decides is made here.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/value.h"

namespace kvd::jinja {

// The limits of one render, and the time that it sees.
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

class Budget {
 public:
  static constexpr std::uint32_t kNestingMax = 200;  // of values

  explicit Budget(const RenderOptions& options) : options_(options) {}

  const RenderOptions& options() const { return options_; }

  // Each returns kTooLarge beyond its limit.
  Status Step(std::uint64_t count = 1) {
    steps_ += count;
    return steps_ <= options_.steps_max ? Status() : TooManySteps();
  }
  // Counts bytes of values.
  Status Charge(std::uint64_t bytes) {
    value_bytes_ += bytes;
    return value_bytes_ <= options_.value_bytes_max ? Status() : TooManyBytes();
  }
  // Checks that `count` pieces of `bytes` could be made, without counting them.
  Status CheckRoom(std::uint64_t count, std::uint64_t bytes = 1) const;
  Status CheckOutput(std::size_t bytes) const {
    return bytes <= options_.output_bytes_max ? Status() : TooMuchOutput();
  }

  // Counts one level while it exists.
  class Level {
   public:
    explicit Level(Budget* budget) : budget_(budget) { ++budget_->depth_; }
    ~Level() { --budget_->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Status Check() const {
      return budget_->depth_ <= budget_->options_.depth_max ? Status() : budget_->TooDeep();
    }

   private:
    Budget* budget_;
  };

  Result<Value> String(std::string bytes, bool is_safe = false);
  Result<Value> List(std::vector<Value> items);
  Result<Value> Tuple(std::vector<Value> items);
  Result<Value> Of(Dict dict);

 private:
  Status TooManySteps() const;
  Status TooManyBytes() const;
  Status TooMuchOutput() const;
  Status TooDeep() const;

  const RenderOptions options_;
  std::uint64_t steps_ = 0;
  std::uint64_t value_bytes_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace kvd::jinja
