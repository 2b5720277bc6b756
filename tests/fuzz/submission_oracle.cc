#include "tests/fuzz/submission_oracle.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace kvd::test {
namespace {

using wire::Verb;

constexpr std::int64_t kAnyMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kAnyMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kTextBytes = 16u << 20;
constexpr std::uint64_t kUploadBytes = 16u << 20;
constexpr std::uint64_t kTokenBytes = 4;
constexpr std::int64_t kPosMax = std::numeric_limits<std::int32_t>::max();

// What p0 and p1 may be.
enum class Positions : std::uint8_t {
  kUnused,      // both 0
  kRange,       // p1 is open (negative), or not before p0
  kFirstOrAll,  // p0 from -1 on, p1 is 0
  kFirst,       // p0 from 0 on, p1 is 0
};

struct Rule {
  unsigned flags = 0;  // besides kFlagRetry
  int sequences = 0;
  Positions positions = Positions::kUnused;
  std::uint64_t payload_bytes_min = 0;
  std::uint64_t payload_bytes_max = 0;
  std::uint64_t payload_unit = 1;
  bool has_tokens = false;  // beside payload_bytes_max, as many as the pool has cells
  std::int64_t argument_min = 0;
  std::int64_t argument_max = 0;
};

std::optional<Rule> RuleOf(Verb verb) {
  constexpr unsigned kForce = wire::kFlagForce;
  constexpr unsigned kPrompt = wire::kFlagForce | wire::kFlagProgress | wire::kFlagNoPrefix;
  switch (verb) {
    case Verb::kPing: return Rule{.payload_bytes_max = 4096};
    case Verb::kInfo:
    case Verb::kList:
    case Verb::kSnapshots:
    case Verb::kDefrag:
    case Verb::kSaved:
    case Verb::kCache:
    case Verb::kProfile: return Rule{};
    case Verb::kCreate:
    case Verb::kCancel: return Rule{.argument_min = kAnyMin, .argument_max = kAnyMax};
    case Verb::kFork:
      return Rule{.sequences = 1,
                  .positions = Positions::kFirstOrAll,
                  .argument_min = 1,
                  .argument_max = 1024};
    case Verb::kDrop:
    case Verb::kClear:
    case Verb::kRetain: return Rule{.flags = kForce, .sequences = 1};
    case Verb::kCopyRange:
      return Rule{.flags = kForce, .sequences = 2, .positions = Positions::kRange};
    case Verb::kRemoveRange:
      return Rule{.flags = kForce, .sequences = 1, .positions = Positions::kRange};
    case Verb::kKeep:
    case Verb::kQuery: return Rule{.sequences = 1};
    case Verb::kAdd:
      return Rule{.flags = kForce,
                  .sequences = 1,
                  .positions = Positions::kRange,
                  .argument_min = -kPosMax,
                  .argument_max = kPosMax};
    case Verb::kDivide:
      return Rule{.flags = kForce,
                  .sequences = 1,
                  .positions = Positions::kRange,
                  .argument_min = 1,
                  .argument_max = kPosMax};
    case Verb::kDecode:
      return Rule{.flags = kPrompt,
                  .sequences = 1,
                  .positions = Positions::kFirst,
                  .payload_bytes_min = 4,
                  .payload_unit = 4,
                  .has_tokens = true,
                  .argument_max = 2};
    case Verb::kGenerate:
      return Rule{.flags = kPrompt,
                  .sequences = 1,
                  .positions = Positions::kFirstOrAll,
                  .payload_bytes_min = 72,
                  .payload_bytes_max = 72 + 1024 * 8 + 16 * (4 + 256),
                  .has_tokens = true};
    case Verb::kReadTokens:
      return Rule{.sequences = 1,
                  .positions = Positions::kFirstOrAll,
                  .argument_min = -1,
                  .argument_max = kPosMax};
    case Verb::kReadText: return Rule{.flags = wire::kFlagSpecial, .sequences = 1};
    case Verb::kPublish:
      return Rule{.flags = kForce | wire::kFlagPublic,
                  .sequences = 1,
                  .payload_bytes_min = 1,
                  .payload_bytes_max = 64};
    case Verb::kUnpublish:
      return Rule{.flags = kForce, .payload_bytes_min = 1, .payload_bytes_max = 64};
    case Verb::kAttach:
    case Verb::kLoad:
    case Verb::kRemoveSaved: return Rule{.payload_bytes_min = 1, .payload_bytes_max = 64};
    case Verb::kTokenize:
      return Rule{.flags = wire::kFlagAddSpecial | wire::kFlagParseSpecial,
                  .payload_bytes_max = kTextBytes};
    case Verb::kDetokenize:
      return Rule{.flags = wire::kFlagSpecial,
                  .payload_bytes_min = 4,
                  .payload_unit = 4,
                  .has_tokens = true};
    case Verb::kChat:
      return Rule{.flags = wire::kFlagAddAssistant,
                  .payload_bytes_min = 8,
                  .payload_bytes_max = kTextBytes};
    case Verb::kEmbed:
      return Rule{.flags = wire::kFlagNormalize,
                  .payload_bytes_min = 4,
                  .payload_unit = 4,
                  .has_tokens = true};
    case Verb::kEncode:
      return Rule{.flags = kForce,
                  .sequences = 1,
                  .payload_bytes_min = 4,
                  .payload_unit = 4,
                  .has_tokens = true};
    case Verb::kPin: return Rule{.flags = kForce, .sequences = 1, .argument_max = 1};
    case Verb::kDropRetained: return Rule{.flags = kForce};
    case Verb::kSave:
      return Rule{.flags = kForce, .sequences = 1, .payload_bytes_max = 64, .argument_max = 31};
    case Verb::kSaveAll: return Rule{.flags = kForce, .payload_bytes_max = 64, .argument_max = 31};
    case Verb::kExportState:
      return Rule{.payload_bytes_min = 8, .payload_bytes_max = 8 + 256 * 8, .payload_unit = 8};
    case Verb::kUploadState:
      return Rule{
          .payload_bytes_min = 1, .payload_bytes_max = kUploadBytes, .argument_max = kAnyMax};
    case Verb::kImportState: return Rule{};
  }
  return std::nullopt;
}

bool HasValidPositions(Positions positions, std::int32_t p0, std::int32_t p1) {
  switch (positions) {
    case Positions::kUnused: return p0 == 0 && p1 == 0;
    case Positions::kRange: return p1 < 0 || p0 <= p1;
    case Positions::kFirstOrAll: return p0 >= -1 && p1 == 0;
    case Positions::kFirst: return p0 >= 0 && p1 == 0;
  }
  return false;
}

// What the client says it has of the answer already.
bool HasValidReceived(const wire::Submission& submission) {
  const auto verb = static_cast<Verb>(submission.verb);
  if (submission.received == 0) return submission.last_token == 0;
  if ((submission.flags & wire::kFlagRetry) == 0) return false;
  if (verb == Verb::kGenerate) return submission.last_token >= 0;
  return verb == Verb::kDecode && submission.last_token == 0;
}

// ------------------------------------------------------------------------------------ payloads

// Reads front to back; false once the bytes have ended.
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
  if (name.empty() || name.size() > 64 || name[0] == '.') return false;
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

bool AreMessages(std::span<const std::byte> payload) {
  Bytes bytes(payload);
  if (payload.empty()) return false;
  for (int messages = 0; bytes.left() != 0; ++messages) {
    if (messages == 4096) return false;
    std::uint32_t role_bytes = 0;
    std::uint32_t content_bytes = 0;
    std::string_view role;
    std::string_view content;
    if (!bytes.Read(&role_bytes) || !bytes.Read(&content_bytes)) return false;
    if (!bytes.ReadText(role_bytes, &role) || !bytes.ReadText(content_bytes, &content)) {
      return false;
    }
    if (!IsName(role) || !IsUtf8(content)) return false;
  }
  return true;
}

// Comparisons with NaN are false.
bool AreParams(const wire::GenerateParams& params) {
  const auto is_in = [](auto value, auto low, auto high) { return low <= value && value <= high; };
  const bool continues = (params.flags & wire::kContinue) != 0;
  return (continues ? params.token_count == 0
                    : is_in(params.token_count, 1u, std::uint32_t{INT32_MAX})) &&
         params.predict_max >= -1 && params.temperature >= 0 && std::isfinite(params.temperature) &&
         params.top_k >= 0 && is_in(params.top_p, std::numeric_limits<float>::denorm_min(), 1.0f) &&
         is_in(params.min_p, 0.0f, 1.0f) &&
         is_in(params.typical_p, std::numeric_limits<float>::denorm_min(), 1.0f) &&
         params.repeat_penalty > 0 && std::isfinite(params.repeat_penalty) &&
         is_in(params.presence_penalty, -2.0f, 2.0f) &&
         is_in(params.frequency_penalty, -2.0f, 2.0f) && params.repeat_last >= -1 &&
         params.logprob_count <= 64 && params.flags < 32 && params.bias_count <= 1024 &&
         params.stop_count <= 16;
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
  if (bytes.left() != params.stop_bytes) return false;
  for (std::uint32_t i = 0; i < params.stop_count; ++i) {
    std::uint32_t byte_count = 0;
    std::string_view stop;
    if (!bytes.Read(&byte_count) || !bytes.ReadText(byte_count, &stop)) return false;
    if (stop.empty() || stop.size() > 256 || !IsUtf8(stop)) return false;
  }
  return bytes.left() == 0;
}

std::string_view TextOf(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace

bool IsValidSubmission(const wire::Submission& submission, std::uint64_t arena_bytes,
                       std::uint64_t pool_cells) {
  const std::optional<Rule> rule = RuleOf(static_cast<Verb>(submission.verb));
  if (!rule) return false;
  const std::uint64_t bytes = submission.payload_bytes;
  const std::uint64_t bytes_max =
      rule->payload_bytes_max + (rule->has_tokens ? pool_cells * kTokenBytes : 0);
  return (submission.flags & ~(rule->flags | wire::kFlagRetry)) == 0 &&
         HasValidReceived(submission) && (submission.sequence != 0) == (rule->sequences > 0) &&
         (submission.sequence2 != 0) == (rule->sequences > 1) &&
         HasValidPositions(rule->positions, submission.p0, submission.p1) &&
         submission.argument >= rule->argument_min && submission.argument <= rule->argument_max &&
         bytes >= rule->payload_bytes_min && bytes <= bytes_max &&
         bytes % rule->payload_unit == 0 && bytes <= arena_bytes &&
         submission.payload_offset <= arena_bytes - bytes;
}

bool IsValidPayload(Verb verb, std::span<const std::byte> payload, std::uint32_t vocab_size) {
  switch (verb) {
    case Verb::kDecode:
    case Verb::kDetokenize:
    case Verb::kEmbed:
    case Verb::kEncode: return AreTokens(payload, vocab_size);
    case Verb::kGenerate: return IsGenerate(payload, vocab_size);
    case Verb::kChat: return AreMessages(payload);
    case Verb::kTokenize: return IsUtf8(TextOf(payload));
    case Verb::kPublish:
    case Verb::kUnpublish:
    case Verb::kAttach:
    case Verb::kSave:
    case Verb::kSaveAll:
    case Verb::kLoad:
    case Verb::kRemoveSaved: return IsName(TextOf(payload));
    // Bytes as they are, or parameters that depend on the model, or nothing.
    case Verb::kPing:
    case Verb::kExportState:
    case Verb::kUploadState:
    case Verb::kImportState:
    case Verb::kInfo:
    case Verb::kCreate:
    case Verb::kFork:
    case Verb::kDrop:
    case Verb::kCopyRange:
    case Verb::kRemoveRange:
    case Verb::kKeep:
    case Verb::kClear:
    case Verb::kAdd:
    case Verb::kDivide:
    case Verb::kQuery:
    case Verb::kCancel:
    case Verb::kReadTokens:
    case Verb::kReadText:
    case Verb::kList:
    case Verb::kSnapshots:
    case Verb::kDefrag:
    case Verb::kRetain:
    case Verb::kPin:
    case Verb::kDropRetained:
    case Verb::kSaved:
    case Verb::kCache:
    case Verb::kProfile: return true;
  }
  return true;
}

}  // namespace kvd::test
