#include "shm/sampling_params.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace kvd {
namespace {

Status Refuse(std::string_view prefix, std::string_view field, const std::string& value,
              std::string_view limit) {
  std::string message(prefix);
  message.append(field).append(": ").append(value).append(" given, must be ").append(limit);
  return Fail(Code::kInvalidArgument, std::move(message));
}

// IsWithin and IsShare are false for NaN.
bool IsWithin(float value, float low, float high) { return value >= low && value <= high; }
bool IsShare(float value) { return value > 0 && value <= 1; }
bool IsFinite(float value) { return value < std::numeric_limits<float>::infinity(); }

}  // namespace

std::string NumberText(float value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

Status ValidateSampling(const SamplingParams& params, std::string_view prefix) {
  const auto check = [prefix](bool is_good, std::string_view field, const auto& value,
                              std::string_view limit) -> Status {
    if (is_good) return {};
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
      return Refuse(prefix, field, NumberText(value), limit);
    } else {
      return Refuse(prefix, field, std::to_string(value), limit);
    }
  };
  KVD_CHECK_OK(check(params.temperature >= 0 && IsFinite(params.temperature), "temperature",
                     params.temperature, "at least 0 and finite"));
  KVD_CHECK_OK(check(params.top_k >= 0, "top_k", params.top_k, "at least 0"));
  KVD_CHECK_OK(check(IsShare(params.top_p), "top_p", params.top_p, "in (0, 1]"));
  KVD_CHECK_OK(check(IsWithin(params.min_p, 0, 1), "min_p", params.min_p, "in [0, 1]"));
  KVD_CHECK_OK(check(IsShare(params.typical_p), "typical_p", params.typical_p, "in (0, 1]"));
  KVD_CHECK_OK(check(params.repeat_penalty > 0 && IsFinite(params.repeat_penalty), "repeat_penalty",
                     params.repeat_penalty, "above 0 and finite"));
  KVD_CHECK_OK(check(IsWithin(params.presence_penalty, -2, 2), "presence_penalty",
                     params.presence_penalty, "in [-2, 2]"));
  KVD_CHECK_OK(check(IsWithin(params.frequency_penalty, -2, 2), "frequency_penalty",
                     params.frequency_penalty, "in [-2, 2]"));
  return check(params.repeat_last >= -1, "repeat_last", params.repeat_last, "at least -1");
}

}  // namespace kvd
