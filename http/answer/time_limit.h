// TimeLimit: the limit of the time of an answer from its first token on.
#pragma once

#include <chrono>
#include <optional>

namespace kvd::http {

class TimeLimit {
 public:
  // nullopt: none.
  explicit TimeLimit(std::optional<std::chrono::milliseconds> most) : most_(most) {}

  // The answer has had tokens. Returns true when it has to end, once.
  bool IsUp() {
    if (!most_ || is_up_) return false;
    using Clock = std::chrono::steady_clock;
    if (!first_token_) first_token_ = Clock::now();
    is_up_ = Clock::now() - *first_token_ > *most_;
    return is_up_;
  }
  // IsUp has returned true.
  bool is_up() const { return is_up_; }

 private:
  std::optional<std::chrono::milliseconds> most_;
  std::optional<std::chrono::steady_clock::time_point> first_token_;
  bool is_up_ = false;
};

}  // namespace kvd::http
