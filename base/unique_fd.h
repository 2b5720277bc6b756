// UniqueFd: owns one file descriptor and closes it.
//
// A UniqueFd is move-only and not thread-safe; an empty UniqueFd holds -1. The destructor ignores
// errors of close, so code that must know whether its data was written calls fsync before the
// UniqueFd is destroyed.
#pragma once

#include <unistd.h>

#include <utility>

namespace kvd {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int descriptor) : descriptor_(descriptor) {}
  UniqueFd(UniqueFd&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  // Returns the descriptor and gives up ownership; the caller closes it.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }
  void reset(int descriptor = -1) {
    const int old = std::exchange(descriptor_, descriptor);
    if (old >= 0) ::close(old);
  }

 private:
  int descriptor_ = -1;
};

}  // namespace kvd
