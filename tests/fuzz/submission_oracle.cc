#include "tests/fuzz/submission_oracle.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

namespace kvd::test {
namespace {

constexpr std::uint64_t kTokenBytes = 4;

// Returns whether every argument slot holds a value that the verb's row allows.
bool HasValidSlots(const wire::VerbRow& row, const wire::Submission& submission) {
  const std::int64_t slots[] = {static_cast<std::int64_t>(submission.sequence),
                                static_cast<std::int64_t>(submission.sequence2), submission.p0,
                                submission.p1, submission.argument};
  for (std::size_t i = 0; i < std::size(slots); ++i) {
    const wire::SlotRule& rule = row.slots[i];
    const bool is_number =
        rule.kind == wire::SlotKind::kNumber || rule.kind == wire::SlotKind::kPosition;
    if (rule.kind == wire::SlotKind::kUnused && slots[i] != 0) return false;
    if (rule.kind == wire::SlotKind::kHandle && slots[i] == 0) return false;
    if (is_number && (slots[i] < rule.min || slots[i] > rule.max)) return false;
    if (rule.kind == wire::SlotKind::kRangeEnd && slots[i] >= 0 && slots[i - 1] > slots[i]) {
      return false;
    }
  }
  return true;
}

// Returns whether `received` and `last_token`, the part of the answer that a retry already has, are
// valid.
bool HasValidReceived(const wire::VerbRow& row, const wire::Submission& submission) {
  if (submission.received == 0) return submission.last_token == 0;
  if ((submission.flags & wire::kFlagRetry) == 0) return false;
  if (row.received == wire::Received::kTokens) return submission.last_token >= 0;
  return row.received == wire::Received::kRows && submission.last_token == 0;
}

// ------------------------------------------------------------------------------------ payloads

// Reads values from front to back. Read functions return false if too few bytes are left.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  bool Read(T* value) {
    if (bytes_.size() < sizeof *value) return false;
    std::memcpy(value, bytes_.data(), sizeof *value);
    bytes_ = bytes_.subspan(sizeof *value);
    return true;
  }
  bool ReadText(std::uint64_t byte_count, std::string_view* text) {
    if (bytes_.size() < byte_count) return false;
    *text = {reinterpret_cast<const char*>(bytes_.data()), byte_count};
    bytes_ = bytes_.subspan(byte_count);
    return true;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// RFC 3629: shortest form, no surrogates, up to U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(at);
    const std::size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || text.size() - at <= more) return false;
    std::uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
    for (std::size_t i = 1; i <= more; ++i) {
      if ((byte(at + i) & 0xc0u) != 0x80) return false;
      point = (point << 6) | (byte(at + i) & 0x3fu);
    }
    constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (point < kLeast[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
      return false;
    }
    at += more + 1;
  }
  return true;
}

bool IsName(std::string_view name) {
  constexpr std::string_view kFirst =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  if (name.empty() || name.size() > 63 || name[0] == '.') return false;
  for (const char c : name) {
    if (c != '.' && (c == 0 || kFirst.find(c) == std::string_view::npos)) return false;
  }
  return true;
}

bool IsToken(std::int32_t token, std::uint32_t vocab_size) {
  return token >= 0 && std::int64_t{token} < std::int64_t{vocab_size};
}

bool AreTokens(std::span<const std::byte> payload, std::uint32_t vocab_size) {
  Bytes bytes(payload);
  std::int32_t token = 0;
  if (payload.empty()) return false;
  while (bytes.left() != 0) {
    if (!bytes.Read(&token) || !IsToken(token, vocab_size)) return false;
  }
  return true;
}

bool AreTokenLists(std::span<const std::byte> payload, std::uint32_t vocab_size) {
  Bytes bytes(payload);
  std::uint32_t lists = 0, length = 0;
  if (!bytes.Read(&lists) || lists < 1 || lists > 4096) return false;
  std::uint64_t tokens = 0;
  for (std::uint32_t i = 0; i < lists; ++i) {
    if (!bytes.Read(&length) || length == 0) return false;
    tokens += length;
  }
  if (tokens > 1048576 || bytes.left() != tokens * kTokenBytes) return false;
  for (std::uint64_t i = 0; i < tokens; ++i) {
    std::int32_t token = 0;
    if (!bytes.Read(&token) || !IsToken(token, vocab_size)) return false;
  }
  return true;
}

bool AreTexts(std::span<const std::byte> payload) {
  Bytes bytes(payload);
  std::size_t texts = 0;
  for (; bytes.left() != 0; ++texts) {
    std::uint32_t byte_count = 0;
    std::string_view text;
    if (texts > 4096 || !bytes.Read(&byte_count) || byte_count > 262144) return false;
    if (!bytes.ReadText(byte_count, &text) || !IsUtf8(text)) return false;
  }
  return texts >= 2;
}

// Returns whether the parameters are in their ranges. NaN is refused, because comparisons with NaN
// are false.
bool AreLaterParams(const SamplingParams& params) {
  const auto is_in = [](auto value, auto low, auto high) { return low <= value && value <= high; };
  constexpr float kMax = std::numeric_limits<float>::max();
  int names[11] = {};
  bool has_ended = false;
  for (const SamplerKind kind : params.chain.kinds) {
    const auto number = static_cast<std::size_t>(kind);
    if (number > 10 || (number != 0 && (has_ended || ++names[number] > 1))) return false;
    has_ended = number == 0;
  }
  return is_in(params.top_n_sigma, -kMax, kMax) && is_in(params.xtc_probability, 0.0f, 1.0f) &&
         is_in(params.xtc_threshold, 0.0f, 1.0f) && is_in(params.dry_multiplier, 0.0f, kMax) &&
         is_in(params.dry_base, 1.0f, kMax) && params.dry_allowed_length >= 0 &&
         params.dry_penalty_last >= -1 && is_in(params.dynatemp_range, 0.0f, kMax) &&
         is_in(params.dynatemp_exponent, 0.0f, kMax) && is_in(params.mirostat, 0, 2) &&
         is_in(params.mirostat_tau, 0.0f, 1000.0f) && is_in(params.mirostat_eta, 0.0f, 1000.0f) &&
         is_in(params.adaptive_target, -1.0f, 1.0f) && is_in(params.adaptive_decay, 0.0f, 0.99f);
}

bool AreParams(const wire::GenerateParams& params) {
  const auto is_in = [](auto value, auto low, auto high) { return low <= value && value <= high; };
  const bool continues = (params.flags & wire::kContinue) != 0;
  return (continues ? params.token_count == 0
                    : is_in(params.token_count, 1u, std::uint32_t{INT32_MAX})) &&
         params.predict_max >= -1 && params.sampling.temperature >= 0 &&
         std::isfinite(params.sampling.temperature) && params.sampling.top_k >= 0 &&
         is_in(params.sampling.top_p, std::numeric_limits<float>::denorm_min(), 1.0f) &&
         is_in(params.sampling.min_p, 0.0f, 1.0f) &&
         is_in(params.sampling.typical_p, std::numeric_limits<float>::denorm_min(), 1.0f) &&
         params.sampling.repeat_penalty > 0 && std::isfinite(params.sampling.repeat_penalty) &&
         is_in(params.sampling.presence_penalty, -2.0f, 2.0f) &&
         is_in(params.sampling.frequency_penalty, -2.0f, 2.0f) &&
         params.sampling.repeat_last >= -1 && AreLaterParams(params.sampling) &&
         params.logprob_count <= 64 && params.flags < 512 && params.bias_count <= 1024 &&
         params.stop_count <= 16 &&
         params.breaker_count <= ((params.flags & wire::kOwnBreakers) != 0 ? 16u : 0u) &&
         params.grammar_bytes <= 1048576 && params.room_wait_ms >= -1 && params.reserved == 0 &&
         params.trigger_count <= (params.grammar_bytes != 0 ? 64u : 0u);
}

bool IsGenerate(std::span<const std::byte> payload, std::uint32_t vocab_size) {
  Bytes bytes(payload);
  wire::GenerateParams params;
  if (!bytes.Read(&params) || !AreParams(params)) return false;
  for (std::uint32_t i = 0; i < params.token_count; ++i) {
    std::int32_t token = 0;
    if (!bytes.Read(&token) || !IsToken(token, vocab_size)) return false;
  }
  for (std::uint32_t i = 0; i < params.bias_count; ++i) {
    wire::LogitBias bias;
    if (!bytes.Read(&bias) || !IsToken(bias.token, vocab_size)) return false;
    const bool forbids = bias.bias == -std::numeric_limits<float>::infinity();
    if (!forbids && !(bias.bias >= -1000 && bias.bias <= 1000)) return false;
  }
  const std::uint64_t after_breakers = params.trigger_bytes + std::uint64_t{params.grammar_bytes};
  if (bytes.left() != params.stop_bytes + params.breaker_bytes + after_breakers) return false;
  const auto are_texts = [&bytes](std::uint32_t count, std::size_t bytes_max) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t byte_count = 0;
      std::string_view text;
      if (!bytes.Read(&byte_count) || !bytes.ReadText(byte_count, &text)) return false;
      if (text.empty() || text.size() > bytes_max || !IsUtf8(text)) return false;
    }
    return true;
  };
  if (!are_texts(params.stop_count, 256)) return false;
  if (bytes.left() != params.breaker_bytes + after_breakers) return false;
  if (!are_texts(params.breaker_count, 40) || bytes.left() != after_breakers) return false;
  for (std::uint32_t i = 0; i < params.trigger_count; ++i) {
    std::int32_t token = 0;
    std::uint32_t byte_count = 0;
    std::string_view text;
    if (!bytes.Read(&token) || !bytes.Read(&byte_count) || !bytes.ReadText(byte_count, &text)) {
      return false;
    }
    const bool is_text = token == -1 && !text.empty() && text.size() <= 256 && IsUtf8(text);
    if (!is_text && !(IsToken(token, vocab_size) && text.empty())) return false;
  }
  std::string_view grammar;
  return bytes.left() == params.grammar_bytes && bytes.ReadText(bytes.left(), &grammar) &&
         IsUtf8(grammar);
}

std::string_view TextOf(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace

bool IsValidSubmission(const wire::Submission& submission, std::uint64_t arena_bytes,
                       std::uint64_t pool_cells) {
  if (submission.verb < 1 || submission.verb > wire::kVerbRows.size()) return false;
  const wire::VerbRow& row = wire::kVerbRows[submission.verb - 1u];
  const std::uint64_t bytes = submission.payload_bytes;
  const std::uint64_t bytes_max =
      row.payload.bytes_max + (row.payload.has_tokens ? pool_cells * kTokenBytes : 0);
  return (submission.flags & ~(unsigned{row.flags} | wire::kFlagRetry)) == 0 &&
         HasValidReceived(row, submission) && HasValidSlots(row, submission) &&
         bytes >= row.payload.bytes_min && bytes <= bytes_max && bytes % row.payload.unit == 0 &&
         bytes <= arena_bytes && submission.payload_offset <= arena_bytes - bytes;
}

bool IsValidPayload(wire::PayloadKind kind, std::span<const std::byte> payload,
                    std::uint32_t vocab_size) {
  using wire::PayloadKind;
  switch (kind) {
    case PayloadKind::kTokens: return AreTokens(payload, vocab_size);
    case PayloadKind::kGenerate: return IsGenerate(payload, vocab_size);
    case PayloadKind::kText: return IsUtf8(TextOf(payload));
    case PayloadKind::kTokenLists: return AreTokenLists(payload, vocab_size);
    case PayloadKind::kTexts: return AreTexts(payload);
    case PayloadKind::kSnapshotName:
    case PayloadKind::kSavedName: return IsName(TextOf(payload));
    // Payloads of the remaining kinds are empty, arbitrary bytes, or checked later against the
    // model.
    case PayloadKind::kNone:
    case PayloadKind::kBytes:
    case PayloadKind::kExportState: return true;
  }
  return true;
}

}  // namespace kvd::test
