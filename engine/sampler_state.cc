#include "engine/sampler_state.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace kvd {
namespace {

// Little-endian; biases follow.
struct SamplerBytes {
  std::uint32_t version;  // kVersion
  std::uint32_t bias_count;
  std::uint64_t seed;
  std::uint64_t draw_count;
  float temperature;
  std::int32_t top_k;
  float top_p;
  float min_p;
  float typical_p;
  float repeat_penalty;
  float presence_penalty;
  float frequency_penalty;
  std::int32_t repeat_last;
  std::uint32_t ignores_eos;  // 0 or 1
};
static_assert(sizeof(SamplerBytes) == 64 && std::is_standard_layout_v<SamplerBytes>);
constexpr std::uint32_t kVersion = 1;

std::unexpected<Error> Corrupt(const std::string& field, const std::string& what) {
  return Fail(Code::kCorrupt, "sampler state: " + field + ": " + what);
}

}  // namespace

layout::SamplerRecord RecordOf(const SamplingParams& params, std::uint64_t draw_count) {
  std::uint32_t flags = layout::kSamplerKept;
  if (params.ignore_eos) flags |= layout::kSamplerIgnoresEos;
  if (!params.biases.empty()) flags |= layout::kSamplerBiased;
  return {.seed = params.seed,
          .draw_count = draw_count,
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .typical_p = params.typical_p,
          .repeat_penalty = params.repeat_penalty,
          .presence_penalty = params.presence_penalty,
          .frequency_penalty = params.frequency_penalty,
          .repeat_last = params.repeat_last,
          .cell_count = 0,
          .flags = flags,
          .reserved = 0};
}

Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size) {
  if ((record.flags & layout::kSamplerBiased) != 0) {
    return Fail(Code::kUnsupported, "sampler state: its biases do not outlive the daemon");
  }
  KeptSampler kept{.params = {.temperature = record.temperature,
                              .top_k = record.top_k,
                              .top_p = record.top_p,
                              .min_p = record.min_p,
                              .typical_p = record.typical_p,
                              .repeat_penalty = record.repeat_penalty,
                              .presence_penalty = record.presence_penalty,
                              .frequency_penalty = record.frequency_penalty,
                              .repeat_last = record.repeat_last,
                              .seed = record.seed,
                              .ignore_eos = (record.flags & layout::kSamplerIgnoresEos) != 0,
                              .biases = {}},
                   .draw_count = record.draw_count};
  if (const Status status = ValidateSampling(kept.params, vocab_size); !status) {
    return Fail(Code::kCorrupt, "sampler state: " + status.error().message);
  }
  return kept;
}

std::vector<std::byte> EncodeSampler(const KeptSampler& kept) {
  const SamplingParams& params = kept.params;
  const SamplerBytes fixed{.version = kVersion,
                           .bias_count = static_cast<std::uint32_t>(params.biases.size()),
                           .seed = params.seed,
                           .draw_count = kept.draw_count,
                           .temperature = params.temperature,
                           .top_k = params.top_k,
                           .top_p = params.top_p,
                           .min_p = params.min_p,
                           .typical_p = params.typical_p,
                           .repeat_penalty = params.repeat_penalty,
                           .presence_penalty = params.presence_penalty,
                           .frequency_penalty = params.frequency_penalty,
                           .repeat_last = params.repeat_last,
                           .ignores_eos = params.ignore_eos ? 1u : 0u};
  const auto biases = std::as_bytes(std::span(params.biases));
  std::vector<std::byte> bytes(sizeof fixed + biases.size());
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  if (!biases.empty()) std::memcpy(bytes.data() + sizeof fixed, biases.data(), biases.size());
  return bytes;
}

Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size) {
  SamplerBytes fixed;
  if (bytes.size() < sizeof fixed) {
    return Corrupt("length", std::to_string(bytes.size()) + " bytes, at least " +
                                 std::to_string(sizeof fixed) + " wanted");
  }
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.version != kVersion) return Corrupt("version", std::to_string(fixed.version));
  const std::span<const std::byte> rest = bytes.subspan(sizeof fixed);
  if (rest.size() != std::uint64_t{fixed.bias_count} * sizeof(wire::LogitBias)) {
    return Corrupt("bias_count", std::to_string(fixed.bias_count) + " in " +
                                     std::to_string(rest.size()) + " bytes");
  }
  if (fixed.ignores_eos > 1) return Corrupt("ignores_eos", std::to_string(fixed.ignores_eos));
  KeptSampler kept{.params = {.temperature = fixed.temperature,
                              .top_k = fixed.top_k,
                              .top_p = fixed.top_p,
                              .min_p = fixed.min_p,
                              .typical_p = fixed.typical_p,
                              .repeat_penalty = fixed.repeat_penalty,
                              .presence_penalty = fixed.presence_penalty,
                              .frequency_penalty = fixed.frequency_penalty,
                              .repeat_last = fixed.repeat_last,
                              .seed = fixed.seed,
                              .ignore_eos = fixed.ignores_eos != 0,
                              .biases = std::vector<wire::LogitBias>(fixed.bias_count)},
                   .draw_count = fixed.draw_count};
  if (!rest.empty()) std::memcpy(kept.params.biases.data(), rest.data(), rest.size());
  if (const Status status = ValidateSampling(kept.params, vocab_size); !status) {
    return Fail(Code::kCorrupt, "sampler state: " + status.error().message);
  }
  return kept;
}

}  // namespace kvd
