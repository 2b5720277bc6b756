#include "engine/sampling/kept_sampler.h"
#include "base/text.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace kvd {
namespace {

// SamplerBytes: the start of the encoded bytes; the biases follow. All numbers are little-endian.
// The cell_count of the encoded record is 0, because the saved state contains the sequence itself.
struct SamplerBytes {
  std::uint32_t version;  // kVersion
  std::uint32_t bias_count;
  layout::SamplerRecord record;
};
static_assert(sizeof(SamplerBytes) == 72 && std::is_standard_layout_v<SamplerBytes>);
constexpr std::uint32_t kVersion = 2;

std::unexpected<Error> Corrupt(const std::string& field, const std::string& what) {
  return Fail(Code::kCorrupt, "sampler state: ", field, ": ", what);
}

// The sampler of a record, without its biases.
KeptSampler WithoutBiases(const layout::SamplerRecord& record) {
  return {.options = {.sampling = record.sampling,
                      .seed = record.seed,
                      .ignore_eos = (record.flags & layout::kSamplerIgnoresEos) != 0,
                      .biases = {}},
          .draw_count = record.draw_count};
}

Result<KeptSampler> Validated(KeptSampler kept, std::uint32_t vocab_size) {
  if (const Status status = ValidateSampler(kept.options, vocab_size); !status) {
    return Fail(Code::kCorrupt, "sampler state: ", status.error().message);
  }
  return kept;
}

}  // namespace

layout::SamplerRecord RecordOf(const SamplerOptions& options, std::uint64_t draw_count) {
  std::uint32_t flags = layout::kSamplerKept;
  if (options.ignore_eos) flags |= layout::kSamplerIgnoresEos;
  if (!options.biases.empty()) flags |= layout::kSamplerBiased;
  return {.seed = options.seed,
          .draw_count = draw_count,
          .sampling = options.sampling,
          .cell_count = 0,
          .flags = flags,
          .reserved = 0};
}

Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size) {
  if ((record.flags & layout::kSamplerBiased) != 0) {
    return Fail(Code::kUnsupported,
                "sampler state: logit biases are not kept when the daemon restarts");
  }
  return Validated(WithoutBiases(record), vocab_size);
}

std::vector<std::byte> EncodeSampler(const KeptSampler& kept) {
  const std::vector<wire::LogitBias>& all = kept.options.biases;
  const SamplerBytes fixed{.version = kVersion,
                           .bias_count = static_cast<std::uint32_t>(all.size()),
                           .record = RecordOf(kept.options, kept.draw_count)};
  const auto biases = std::as_bytes(std::span(all));
  std::vector<std::byte> bytes(sizeof fixed + biases.size());
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  if (!biases.empty()) std::memcpy(bytes.data() + sizeof fixed, biases.data(), biases.size());
  return bytes;
}

Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size) {
  SamplerBytes fixed;
  if (bytes.size() < sizeof fixed) {
    return Corrupt("length", Concat(bytes.size(), " bytes, at least ", sizeof fixed, " needed"));
  }
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.version != kVersion) return Corrupt("version", std::to_string(fixed.version));
  const std::span<const std::byte> rest = bytes.subspan(sizeof fixed);
  if (rest.size() != std::uint64_t{fixed.bias_count} * sizeof(wire::LogitBias)) {
    return Corrupt("bias_count", Concat(fixed.bias_count, " in ", rest.size(), " bytes"));
  }
  const std::uint32_t wanted = layout::kSamplerKept |
                               (fixed.bias_count != 0 ? layout::kSamplerBiased : 0u) |
                               (fixed.record.flags & layout::kSamplerIgnoresEos);
  if (fixed.record.flags != wanted) return Corrupt("flags", std::to_string(fixed.record.flags));
  if (fixed.record.cell_count != 0 || fixed.record.reserved != 0) {
    return Corrupt("cell_count or reserved", "not zero");
  }
  KeptSampler kept = WithoutBiases(fixed.record);
  kept.options.biases.resize(fixed.bias_count);
  if (!rest.empty()) std::memcpy(kept.options.biases.data(), rest.data(), rest.size());
  return Validated(std::move(kept), vocab_size);
}

}  // namespace kvd
