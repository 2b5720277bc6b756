// Checks the options of a sampler that come from a client or a file.
#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

Status CheckCount(const char* field, std::size_t found, std::size_t most) {
  if (found <= most) return {};
  return Fail(Code::kInvalidArgument, field, ": ", found, " given, must be at most ", most);
}

Status ValidateBiases(std::span<const wire::LogitBias> biases, std::uint32_t vocab_size) {
  KVD_CHECK_OK(CheckCount("logit biases", biases.size(), wire::kBiasesMax));
  for (const wire::LogitBias& entry : biases) {
    KVD_CHECK_OK(wire::ValidateLogitBias(entry, vocab_size));
  }
  return {};
}

Status ValidateBreakers(const std::vector<std::string>& breakers) {
  KVD_CHECK_OK(CheckCount("breakers", breakers.size(), wire::kBreakersMax));
  for (const std::string& breaker : breakers) KVD_CHECK_OK(wire::ValidateBreaker(breaker));
  return {};
}

}  // namespace

Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size) {
  KVD_CHECK_OK(ValidateSampling(options.sampling));
  KVD_CHECK_OK(CheckCount("logprob_count", options.logprob_count, wire::kLogprobsMax));
  if (options.breakers) KVD_CHECK_OK(ValidateBreakers(*options.breakers));
  return ValidateBiases(options.biases, vocab_size);
}

}  // namespace kvd
