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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// IsWithin and IsShare are false for NaN.
bool IsWithin(float value, float low, float high) { return value >= low && value <= high; }
bool IsShare(float value) { return value > 0 && value <= 1; }
bool IsFinite(float value) { return value < kInfinity; }

}  // namespace

std::string NumberText(float value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

namespace {

// Checks fields one after the other and keeps the first error.
class FieldChecker {
 public:
  explicit FieldChecker(std::string_view prefix) : prefix_(prefix) {}

  template <class Number>
  void Check(bool is_good, std::string_view field, Number value, std::string_view limit) {
    if (is_good || !status_) return;
    if constexpr (std::is_floating_point_v<Number>) {
      status_ = Refuse(prefix_, field, NumberText(value), limit);
    } else {
      status_ = Refuse(prefix_, field, std::to_string(value), limit);
    }
  }
  void CheckRange(std::string_view field, float value, float low, float high,
                  std::string_view limit) {
    Check(IsWithin(value, low, high), field, value, limit);
  }
  void CheckFrom(std::string_view field, float value, float low, std::string_view limit) {
    Check(value >= low && IsFinite(value), field, value, limit);
  }
  Status status() const { return status_; }

 private:
  std::string_view prefix_;
  Status status_;
};

}  // namespace

Status ValidateSampling(const SamplingParams& params, std::string_view prefix) {
  FieldChecker fields(prefix);
  fields.CheckFrom("temperature", params.temperature, 0, "at least 0 and finite");
  fields.Check(params.top_k >= 0, "top_k", params.top_k, "at least 0");
  fields.Check(IsShare(params.top_p), "top_p", params.top_p, "in (0, 1]");
  fields.CheckRange("min_p", params.min_p, 0, 1, "in [0, 1]");
  fields.Check(IsShare(params.typical_p), "typical_p", params.typical_p, "in (0, 1]");
  fields.Check(params.repeat_penalty > 0 && IsFinite(params.repeat_penalty), "repeat_penalty",
               params.repeat_penalty, "above 0 and finite");
  fields.CheckRange("presence_penalty", params.presence_penalty, -2, 2, "in [-2, 2]");
  fields.CheckRange("frequency_penalty", params.frequency_penalty, -2, 2, "in [-2, 2]");
  fields.Check(params.repeat_last >= -1, "repeat_last", params.repeat_last, "at least -1");
  fields.Check(params.top_n_sigma > -kInfinity && IsFinite(params.top_n_sigma), "top_n_sigma",
               params.top_n_sigma, "finite");
  fields.CheckRange("xtc_probability", params.xtc_probability, 0, 1, "in [0, 1]");
  fields.CheckRange("xtc_threshold", params.xtc_threshold, 0, 1, "in [0, 1]");
  fields.CheckFrom("dry_multiplier", params.dry_multiplier, 0, "at least 0 and finite");
  fields.CheckFrom("dry_base", params.dry_base, 1, "at least 1 and finite");
  fields.Check(params.dry_allowed_length >= 0, "dry_allowed_length", params.dry_allowed_length,
               "at least 0");
  fields.Check(params.dry_penalty_last >= -1, "dry_penalty_last", params.dry_penalty_last,
               "at least -1");
  fields.CheckFrom("dynatemp_range", params.dynatemp_range, 0, "at least 0 and finite");
  fields.CheckFrom("dynatemp_exponent", params.dynatemp_exponent, 0, "at least 0 and finite");
  fields.Check(params.mirostat >= 0 && params.mirostat <= 2, "mirostat", params.mirostat,
               "0, 1 or 2");
  fields.CheckRange("mirostat_tau", params.mirostat_tau, 0, 1000, "in [0, 1000]");
  fields.CheckRange("mirostat_eta", params.mirostat_eta, 0, 1000, "in [0, 1000]");
  fields.CheckRange("adaptive_target", params.adaptive_target, -1, 1, "in [-1, 1]");
  fields.CheckRange("adaptive_decay", params.adaptive_decay, 0, 0.99f, "in [0, 0.99]");
  KVD_CHECK_OK(fields.status());
  return ValidateChain(params.chain, std::string(prefix) + "samplers");
}

Status ValidateAdaptation(const SamplerAdaptation& adaptation) {
  FieldChecker fields("");
  fields.Check(adaptation.mirostat_mu > -kInfinity && IsFinite(adaptation.mirostat_mu),
               "mirostat_mu", adaptation.mirostat_mu, "finite");
  fields.Check(adaptation.adaptive_sum > -kInfinity && IsFinite(adaptation.adaptive_sum),
               "adaptive_sum", adaptation.adaptive_sum, "finite");
  fields.CheckFrom("adaptive_weight", adaptation.adaptive_weight, 0, "at least 0 and finite");
  return fields.status();
}

}  // namespace kvd
