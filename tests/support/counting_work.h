// CountingWork: a WorkControl that counts its calls and can cancel the work at one of them.
#pragma once

#include <cstdint>
#include <limits>

#include "base/work_control.h"

namespace kvd::test {

class CountingWork final : public WorkControl {
 public:
  CountingWork() = default;
  explicit CountingWork(std::uint64_t cancel_at) : cancel_at_(cancel_at) {}

  Status Continue() override {
    if (++steps_ >= cancel_at_) return Fail(Code::kCancelled, "cancelled");
    return {};
  }
  std::uint64_t steps() const { return steps_; }

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t cancel_at_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace kvd::test
