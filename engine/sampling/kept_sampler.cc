#include "engine/sampling/kept_sampler.h"

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace kvd {
namespace {

// SamplerBytes: the start of the encoded bytes. The biases follow, then the breakers, each a u32
// byte count and the bytes. All numbers are little-endian. The cell_count of the encoded record is
// 0, because the saved state contains the sequence itself.
struct SamplerBytes {
  std::uint32_t version;  // kVersion
  std::uint32_t bias_count;
  std::uint32_t breaker_count;
  std::uint32_t reserved;
  layout::SamplerRecord record;
};
static_assert(sizeof(SamplerBytes) == 184 && std::is_standard_layout_v<SamplerBytes>);
constexpr std::uint32_t kVersion = 4;

// The start of the bytes of version 3; the biases and breakers follow.
struct SamplerBytes3 {
  std::uint32_t version;  // kVersion3
  std::uint32_t bias_count;
  std::uint32_t breaker_count;
  std::uint32_t reserved;
  std::byte record[offsetof(layout::SamplerRecord, grammar_begin)];
  std::uint32_t reserved_end[2];
};
static_assert(sizeof(SamplerBytes3) == 176 && std::is_standard_layout_v<SamplerBytes3>);
constexpr std::uint32_t kVersion3 = 3;

// The start of the bytes of version 2; the biases follow. `sampling` is the begin of a
// SamplingParams.
struct SamplerBytes2 {
  std::uint32_t version;  // kVersion2
  std::uint32_t bias_count;
  std::uint64_t seed;
  std::uint64_t draw_count;
  std::byte sampling[offsetof(SamplingParams, top_n_sigma)];
  std::uint32_t cell_count;
  std::uint32_t flags;
  std::uint32_t reserved;
};
static_assert(sizeof(SamplerBytes2) == 72 && std::is_standard_layout_v<SamplerBytes2>);
constexpr std::uint32_t kVersion2 = 2;

std::unexpected<Error> Corrupt(const std::string& field, const std::string& what) {
  return Fail(Code::kCorrupt, "sampler state: ", field, ": ", what);
}

// The sampler of a record, without its biases and breakers.
KeptSampler FromRecord(const layout::SamplerRecord& record) {
  return {.options = {.sampling = record.sampling,
                      .seed = record.seed,
                      .ignore_eos = (record.flags & layout::kSamplerIgnoresEos) != 0,
                      .biases = {},
                      .llama_draws = (record.flags & layout::kSamplerLlamaDraws) != 0},
          .progress = ProgressOf(record),
          .grammar = {.hash = record.grammar_hash, .begin = record.grammar_begin}};
}

Result<KeptSampler> Validated(KeptSampler kept, std::uint32_t vocab_size) {
  Status status = ValidateSampler(kept.options, vocab_size);
  if (status) status = ValidateAdaptation(kept.progress.adaptation);
  if (status) status = ValidateAdaptation(kept.progress.adaptation_before);
  if (status && kept.options.llama_draws) status = ValidateLlamaDraws(kept.progress);
  if (!status) return Fail(Code::kCorrupt, "sampler state: ", status.error().message);
  return kept;
}

// Takes the first bytes of `bytes` as a T. REQUIRES: there are as many.
template <class T>
T Take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

template <class T>
Status CheckLength(std::span<const std::byte> bytes) {
  if (bytes.size() >= sizeof(T)) return {};
  return Corrupt("length", Concat(bytes.size(), " bytes, at least ", sizeof(T), " needed"));
}

Result<SamplerBytes> Updated(const SamplerBytes3& old) {
  if (old.reserved_end[0] != 0 || old.reserved_end[1] != 0) return Corrupt("reserved", "not zero");
  SamplerBytes fixed{.version = kVersion,
                     .bias_count = old.bias_count,
                     .breaker_count = old.breaker_count,
                     .reserved = old.reserved,
                     .record = {}};
  std::memcpy(&fixed.record, old.record, sizeof old.record);
  return fixed;
}

// Reads the fixed part of any version and converts it to that of kVersion.
Result<SamplerBytes> TakeFixed(std::span<const std::byte>& bytes) {
  KVD_CHECK_OK(CheckLength<std::uint32_t>(bytes));
  std::uint32_t version = 0;
  std::memcpy(&version, bytes.data(), sizeof version);
  if (version == kVersion) {
    KVD_CHECK_OK(CheckLength<SamplerBytes>(bytes));
    return Take<SamplerBytes>(bytes);
  }
  if (version == kVersion3) {
    KVD_CHECK_OK(CheckLength<SamplerBytes3>(bytes));
    return Updated(Take<SamplerBytes3>(bytes));
  }
  if (version != kVersion2) return Corrupt("version", std::to_string(version));
  KVD_CHECK_OK(CheckLength<SamplerBytes2>(bytes));
  const auto old = Take<SamplerBytes2>(bytes);
  if ((old.flags & layout::kSamplerOwnBreakers) != 0) {
    return Corrupt("flags", std::to_string(old.flags));
  }
  SamplerBytes fixed{.version = kVersion,
                     .bias_count = old.bias_count,
                     .breaker_count = 0,
                     .reserved = 0,
                     .record = {.seed = old.seed,
                                .draw_count = old.draw_count,
                                .sampling = kPlainSampling,
                                .adaptation = {},
                                .adaptation_before = {},
                                .cell_count = old.cell_count,
                                .flags = old.flags,
                                .grammar_begin = 0,
                                .xtc_draw_count = old.reserved,
                                .grammar_hash = 0}};
  std::memcpy(&fixed.record.sampling, old.sampling, sizeof old.sampling);
  fixed.record.adaptation = InitialAdaptation(fixed.record.sampling);
  fixed.record.adaptation_before = fixed.record.adaptation;
  return fixed;
}

Status CheckFixed(const SamplerBytes& fixed) {
  const layout::SamplerRecord& record = fixed.record;
  constexpr std::uint32_t kLlamaFlags =
      layout::kSamplerLlamaDraws | layout::kSamplerDrawLast | layout::kSamplerXtcDrawLast;
  const bool draws_as_llama = (record.flags & layout::kSamplerLlamaDraws) != 0;
  const std::uint32_t wanted =
      layout::kSamplerKept | (fixed.bias_count != 0 ? layout::kSamplerBiased : 0u) |
      (record.flags & layout::kSamplerIgnoresEos) | (record.flags & layout::kSamplerOwnBreakers) |
      (draws_as_llama ? record.flags & kLlamaFlags : 0u);
  if (record.flags != wanted) return Corrupt("flags", std::to_string(record.flags));
  if (fixed.reserved != 0 || record.cell_count != 0 ||
      (record.xtc_draw_count != 0 && !draws_as_llama)) {
    return Corrupt("cell_count, xtc_draw_count or reserved", "not zero");
  }
  if (record.grammar_hash == 0 && record.grammar_begin != 0) {
    return Corrupt("grammar_begin", std::to_string(record.grammar_begin));
  }
  const bool has_own = (record.flags & layout::kSamplerOwnBreakers) != 0;
  if (fixed.breaker_count > (has_own ? wire::kBreakersMax : 0)) {
    return Corrupt("breaker_count", std::to_string(fixed.breaker_count));
  }
  return {};
}

Result<std::string> TakeBreaker(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(std::uint32_t)) return Corrupt("breakers", "end inside a breaker");
  const auto byte_count = Take<std::uint32_t>(bytes);
  if (byte_count > bytes.size()) {
    return Corrupt("breakers", Concat(byte_count, " bytes, ", bytes.size(), " are left"));
  }
  std::string breaker(reinterpret_cast<const char*>(bytes.data()), byte_count);
  bytes = bytes.subspan(byte_count);
  return breaker;
}

template <class T>
void Append(const T* values, std::size_t count, std::vector<std::byte>& bytes) {
  const auto added = std::as_bytes(std::span(values, count));
  bytes.insert(bytes.end(), added.begin(), added.end());
}

}  // namespace

SamplerProgress ProgressOf(const layout::SamplerRecord& record) {
  SamplerProgress progress{.draw_count = record.draw_count,
                           .adaptation = record.adaptation,
                           .adaptation_before = record.adaptation_before};
  if ((record.flags & layout::kSamplerLlamaDraws) != 0) {
    progress.xtc_draw_count = record.xtc_draw_count;
    progress.draw_last = (record.flags & layout::kSamplerDrawLast) >> layout::kSamplerDrawLastShift;
    progress.xtc_draw_last =
        (record.flags & layout::kSamplerXtcDrawLast) >> layout::kSamplerXtcDrawLastShift;
  }
  return progress;
}

layout::SamplerRecord RecordOf(const SamplerOptions& options, const SamplerProgress& progress,
                               const KeptGrammar& grammar) {
  std::uint32_t flags = layout::kSamplerKept;
  if (options.ignore_eos) flags |= layout::kSamplerIgnoresEos;
  if (!options.biases.empty()) flags |= layout::kSamplerBiased;
  if (options.breakers) flags |= layout::kSamplerOwnBreakers;
  if (options.llama_draws) {
    flags |= layout::kSamplerLlamaDraws | progress.draw_last << layout::kSamplerDrawLastShift |
             progress.xtc_draw_last << layout::kSamplerXtcDrawLastShift;
  }
  return {.seed = options.seed,
          .draw_count = progress.draw_count,
          .sampling = options.sampling,
          .adaptation = progress.adaptation,
          .adaptation_before = progress.adaptation_before,
          .cell_count = 0,
          .flags = flags,
          .grammar_begin = grammar.begin,
          .xtc_draw_count = options.llama_draws ? progress.xtc_draw_count : 0,
          .grammar_hash = grammar.hash};
}

Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size) {
  if ((record.flags & layout::kSamplerBiased) != 0) {
    return Fail(Code::kUnsupported,
                "sampler state: logit biases are not kept when the daemon restarts");
  }
  if ((record.flags & layout::kSamplerOwnBreakers) != 0) {
    return Fail(Code::kUnsupported,
                "sampler state: DRY's own breakers are not kept when the daemon restarts");
  }
  return Validated(FromRecord(record), vocab_size);
}

std::vector<std::byte> EncodeSampler(const KeptSampler& kept) {
  static const std::vector<std::string> kNone;
  const std::vector<wire::LogitBias>& biases = kept.options.biases;
  const std::vector<std::string>& breakers = kept.options.breakers ? *kept.options.breakers : kNone;
  const SamplerBytes fixed{.version = kVersion,
                           .bias_count = static_cast<std::uint32_t>(biases.size()),
                           .breaker_count = static_cast<std::uint32_t>(breakers.size()),
                           .reserved = 0,
                           .record = RecordOf(kept.options, kept.progress, kept.grammar)};
  std::vector<std::byte> bytes;
  Append(&fixed, 1, bytes);
  Append(biases.data(), biases.size(), bytes);
  for (const std::string& breaker : breakers) {
    const auto byte_count = static_cast<std::uint32_t>(breaker.size());
    Append(&byte_count, 1, bytes);
    Append(breaker.data(), breaker.size(), bytes);
  }
  return bytes;
}

Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size) {
  KVD_TRY(const SamplerBytes fixed, TakeFixed(bytes));
  KVD_CHECK_OK(CheckFixed(fixed));
  const std::uint64_t bias_bytes = std::uint64_t{fixed.bias_count} * sizeof(wire::LogitBias);
  if (bias_bytes > bytes.size()) {
    return Corrupt("bias_count", Concat(fixed.bias_count, " in ", bytes.size(), " bytes"));
  }
  KeptSampler kept = FromRecord(fixed.record);
  kept.options.biases.resize(fixed.bias_count);
  if (bias_bytes != 0) std::memcpy(kept.options.biases.data(), bytes.data(), bias_bytes);
  bytes = bytes.subspan(bias_bytes);
  if ((fixed.record.flags & layout::kSamplerOwnBreakers) != 0) {
    kept.options.breakers.emplace();
    for (std::uint32_t i = 0; i < fixed.breaker_count; ++i) {
      KVD_TRY(std::string breaker, TakeBreaker(bytes));
      kept.options.breakers->push_back(std::move(breaker));
    }
  }
  if (!bytes.empty()) {
    return Corrupt("length", Concat(bytes.size(), " bytes after the biases and breakers"));
  }
  return Validated(std::move(kept), vocab_size);
}

}  // namespace kvd
