// What each verb may carry is one table; a verb of wire_messages.h without a row does not compile.
#include "shm/wire_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "shm/utf8.h"

namespace kvd::wire {
namespace {

constexpr std::uint32_t kPingBytesMax = 4096;
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// What p0 and p1 are to a verb; kStart's p0 may be -1, kPosition's may not.
enum class Range : std::uint8_t { kNone, kHalfOpen, kStart, kPosition };

// How many bytes a payload may have: a number, or what `tokens_max` tokens need.
struct PayloadMax {
  std::uint32_t bytes = 0;        // beside the tokens
  std::uint8_t bytes_of_one = 0;  // of a token; 0: it carries none

  constexpr std::uint64_t Of(std::uint64_t tokens_max) const {
    if (bytes_of_one == 0) return bytes;
    constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
    return tokens_max > (kAny - bytes) / bytes_of_one ? kAny : bytes + tokens_max * bytes_of_one;
  }
};

constexpr PayloadMax kTokens = {0, sizeof(std::int32_t)};

struct VerbRule {
  std::string_view name;
  std::uint16_t flags;
  std::uint8_t sequences;  // handles wanted
  Range range;
  std::uint32_t payload_bytes_min;
  PayloadMax payload_max;
  std::uint32_t payload_unit;
  std::int64_t argument_min;
  std::int64_t argument_max;
};

constexpr std::uint32_t kGenerateBytesMin = sizeof(GenerateParams);
// And tokens.
constexpr PayloadMax kGenerateMax = {sizeof(GenerateParams) + kBiasesMax * sizeof(LogitBias) +
                                         kStopsMax * (sizeof(std::uint32_t) + kStopBytesMax),
                                     sizeof(std::int32_t)};
constexpr PayloadMax kName = {layout::kNameBytesMax};

// A number that is not given out.
constexpr VerbRule kNoVerb = {"none", 0, 0, Range::kNone, 0, {}, 1, 0, 0};

// A verb without a row does not compile (-Wswitch).
constexpr VerbRule RuleOf(Verb verb) {
  constexpr std::int64_t kAnyMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kAnyMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::uint16_t kPrompt = kFlagForce | kFlagProgress | kFlagNoPrefix;
  switch (verb) {
    case Verb::kPing: return {"ping", 0, 0, Range::kNone, 0, {kPingBytesMax}, 1, 0, 0};
    case Verb::kInfo: return {"info", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kCreate: return {"create", 0, 0, Range::kNone, 0, {}, 1, kAnyMin, kAnyMax};
    case Verb::kFork: return {"fork", 0, 1, Range::kStart, 0, {}, 1, 1, layout::kForksMax};
    case Verb::kDrop: return {"drop", kFlagForce, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kCopyRange: return {"copy_range", kFlagForce, 2, Range::kHalfOpen, 0, {}, 1, 0, 0};
    case Verb::kRemoveRange:
      return {"remove_range", kFlagForce, 1, Range::kHalfOpen, 0, {}, 1, 0, 0};
    case Verb::kKeep: return {"keep", 0, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kClear: return {"clear", kFlagForce, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kAdd:
      return {"add", kFlagForce, 1, Range::kHalfOpen, 0, {}, 1, -kInt32Max, kInt32Max};
    case Verb::kDivide: return {"divide", kFlagForce, 1, Range::kHalfOpen, 0, {}, 1, 1, kInt32Max};
    case Verb::kQuery: return {"query", 0, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kDecode: return {"decode", kPrompt, 1, Range::kPosition, 4, kTokens, 4, 0, 2};
    case Verb::kGenerate:
      return {"generate", kPrompt, 1, Range::kStart, kGenerateBytesMin, kGenerateMax, 1, 0, 0};
    case Verb::kCancel: return {"cancel", 0, 0, Range::kNone, 0, {}, 1, kAnyMin, kAnyMax};
    case Verb::kReadTokens: return {"read_tokens", 0, 1, Range::kStart, 0, {}, 1, -1, kInt32Max};
    case Verb::kReadText: return {"read_text", kFlagSpecial, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kList: return {"list", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kPublish:
      return {"publish", kFlagForce | kFlagPublic, 1, Range::kNone, 1, kName, 1, 0, 0};
    case Verb::kUnpublish: return {"unpublish", kFlagForce, 0, Range::kNone, 1, kName, 1, 0, 0};
    case Verb::kAttach: return {"attach", 0, 0, Range::kNone, 1, kName, 1, 0, 0};
    case Verb::kSnapshots: return {"snapshots", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kTokenize:
      return {"tokenize", kFlagAddSpecial | kFlagParseSpecial,
              0,          Range::kNone,
              0,          {kTextBytesMax},
              1,          0,
              0};
    case Verb::kDetokenize:
      return {"detokenize", kFlagSpecial, 0, Range::kNone, 4, kTokens, 4, 0, 0};
    case Verb::kChat:
      return {
          "chat", kFlagAddAssistant, 0, Range::kNone, sizeof(ChatMessage), {kTextBytesMax}, 1, 0,
          0};
    case Verb::kDefrag: return {"defrag", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kEmbed: return {"embed", kFlagNormalize, 0, Range::kNone, 4, kTokens, 4, 0, 0};
    case Verb::kEncode: return {"encode", kFlagForce, 1, Range::kNone, 4, kTokens, 4, 0, 0};
    case Verb::kRetain: return {"retain", kFlagForce, 1, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kPin: return {"pin", kFlagForce, 1, Range::kNone, 0, {}, 1, 0, 1};
    case Verb::kDropRetained: return {"drop_retained", kFlagForce, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kSave: return {"save", kFlagForce, 1, Range::kNone, 0, kName, 1, 0, kSaveBitsAll};
    case Verb::kLoad: return {"load", 0, 0, Range::kNone, 1, kName, 1, 0, 0};
    case Verb::kSaved: return {"saved", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kRemoveSaved: return {"remove_saved", 0, 0, Range::kNone, 1, kName, 1, 0, 0};
    case Verb::kSaveAll:
      return {"save_all", kFlagForce, 0, Range::kNone, 0, kName, 1, 0, kSaveBitsAll};
    case Verb::kExportState:
      return {"export_state",
              0,
              0,
              Range::kNone,
              sizeof(ExportStateParams),
              {sizeof(ExportStateParams) + kStateHandlesMax * 8},
              8,
              0,
              0};
    case Verb::kUploadState:
      return {"upload_state", 0, 0, Range::kNone, 1, {kUploadPieceBytesMax}, 1, 0, kAnyMax};
    case Verb::kImportState: return {"import_state", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kCache: return {"cache", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
    case Verb::kProfile: return {"profile", 0, 0, Range::kNone, 0, {}, 1, 0, 0};
  }
  return kNoVerb;
}

constexpr auto kRules = [] {
  std::array<VerbRule, kVerbLast + 1> rules{};
  for (std::uint16_t verb = 0; verb <= kVerbLast; ++verb) {
    rules[verb] = RuleOf(static_cast<Verb>(verb));
  }
  return rules;
}();
static_assert(kRules[kVerbLast].name != kNoVerb.name &&
              RuleOf(static_cast<Verb>(kVerbLast + 1)).name == kNoVerb.name);

std::unexpected<Error> Bad(const std::string& field, std::string_view sentence) {
  return Fail(Code::kInvalidArgument, field + ": " + std::string(sentence));
}

template <class Integer>
std::string Text(Integer number) {
  return std::to_string(number);
}

Status CheckRange(const VerbRule& rule, const std::string& verb, const Submission& submission) {
  const std::int32_t p0 = submission.p0;
  const std::int32_t p1 = submission.p1;
  switch (rule.range) {
    case Range::kNone:
      if (p0 == 0 && p1 == 0) return {};
      return Bad(verb + ".p0, p1", Text(p0) + ", " + Text(p1) + ", 0 wanted: it has no range");
    case Range::kStart:
    case Range::kPosition: {
      const std::int32_t p0_min = rule.range == Range::kStart ? -1 : 0;
      if (p0 < p0_min)
        return Bad(verb + ".p0", Text(p0) + ", at least " + Text(p0_min) + " wanted");
      if (p1 != 0) return Bad(verb + ".p1", Text(p1) + ", 0 wanted: it has no end");
      return {};
    }
    case Range::kHalfOpen:
      if (p1 >= 0 && p1 < p0) {
        return Bad(verb + ".p1", Text(p1) + " is before p0, " + Text(p0));
      }
      return {};
  }
  return {};
}

Status CheckPayload(const VerbRule& rule, const std::string& verb, const Submission& submission,
                    const SubmissionLimits& limits) {
  const std::uint32_t payload_bytes = submission.payload_bytes;
  const std::uint64_t payload_max = rule.payload_max.Of(limits.tokens_max);
  const std::uint32_t token_bytes = rule.payload_max.bytes_of_one;
  if (payload_bytes > payload_max && token_bytes != 0) {
    // At least so many: its other parts may have their largest sizes.
    const std::uint64_t tokens =
        (payload_bytes - rule.payload_max.bytes + token_bytes - 1) / token_bytes;
    return Fail(Code::kNoSpace, verb + ".tokens: " + Text(tokens) + ", the pool has " +
                                    Text(limits.tokens_max) + " cells");
  }
  if (payload_bytes < rule.payload_bytes_min || payload_bytes > payload_max) {
    return Bad(verb + ".payload_bytes", Text(payload_bytes) + " is not in [" +
                                            Text(rule.payload_bytes_min) + ", " +
                                            Text(payload_max) + "]");
  }
  if (payload_bytes % rule.payload_unit != 0) {
    return Bad(verb + ".payload_bytes",
               Text(payload_bytes) + " is no multiple of " + Text(rule.payload_unit));
  }
  if (payload_bytes > limits.arena_bytes ||
      submission.payload_offset > limits.arena_bytes - payload_bytes) {
    return Bad(verb + ".payload_offset", Text(submission.payload_offset) + " + " +
                                             Text(payload_bytes) + " bytes, the arena has " +
                                             Text(limits.arena_bytes));
  }
  return {};
}

bool IsVerb(std::uint16_t verb) { return verb <= kVerbLast && kRules[verb].name != kNoVerb.name; }

Status CheckReceived(const std::string& verb, const Submission& submission) {
  const auto number = static_cast<Verb>(submission.verb);
  const bool is_again = (submission.flags & kFlagRetry) != 0;
  if (submission.received != 0 &&
      !(is_again && (number == Verb::kGenerate || number == Verb::kDecode))) {
    return Bad(verb + ".received", Text(submission.received) + ", 0 wanted");
  }
  const bool has_token = submission.received != 0 && number == Verb::kGenerate;
  if (submission.last_token < 0 || (submission.last_token != 0 && !has_token)) {
    return Bad(verb + ".last_token",
               Text(submission.last_token) + (has_token ? " is no token" : ", 0 wanted"));
  }
  return {};
}

bool IsPrintableAscii(char c) { return c >= 0x20 && c <= 0x7e; }

}  // namespace

std::string_view VerbName(std::uint16_t verb) {
  return IsVerb(verb) ? kRules[verb].name : "unknown";
}

bool IsRemembered(Verb verb) {
  switch (verb) {
    case Verb::kCreate:
    case Verb::kFork:
    case Verb::kDrop:
    case Verb::kCopyRange:
    case Verb::kRemoveRange:
    case Verb::kKeep:
    case Verb::kClear:
    case Verb::kAdd:
    case Verb::kDivide:
    case Verb::kEncode:
    case Verb::kPublish:
    case Verb::kUnpublish:
    case Verb::kAttach:
    case Verb::kRetain:
    case Verb::kPin:
    case Verb::kDropRetained:
    case Verb::kSave:
    case Verb::kSaveAll:
    case Verb::kLoad:
    case Verb::kRemoveSaved: return true;
    default: return false;
  }
}

Status ValidateName(std::string_view name) {
  const auto is_first = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > layout::kNameBytesMax) {
    return Bad("name",
               Text(name.size()) + " bytes, 1 to " + Text(layout::kNameBytesMax) + " wanted");
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (is_first(name[i]) || (i > 0 && name[i] == '.')) continue;
    return Bad("name", "byte " + Text(i) + " is " + Text(static_cast<unsigned char>(name[i])) +
                           "; letters, digits, '_', '-' and (not first) '.' wanted");
  }
  return {};
}

Result<CheckedHello> ValidateHello(const Hello& hello) {
  if (hello.magic != kHelloMagic) {
    return Bad("hello.magic", Text(hello.magic) + ": this is no kvd client");
  }
  if (hello.version != kProtocolVersion) {
    return Fail(Code::kVersionMismatch, "hello.version: the client speaks protocol " +
                                            Text(hello.version) + ", the daemon " +
                                            Text(kProtocolVersion));
  }
  if ((hello.flags & ~kHelloFlagsAll) != 0) {
    return Bad("hello.flags", Text(hello.flags) + ", of which " +
                                  Text(hello.flags & ~kHelloFlagsAll) + " are not known");
  }
  if (std::ranges::any_of(hello.reserved, [](std::uint8_t byte) { return byte != 0; })) {
    return Bad("hello.reserved", "not zero");
  }
  CheckedHello checked;
  ChannelGeometry& geometry = checked.geometry;
  if (hello.submission_entries != 0) geometry.submission_entries = hello.submission_entries;
  // Doubled only inside the limits; a number beyond them is refused as it is.
  geometry.completion_entries = std::min(geometry.submission_entries, kEntriesMax / 2) * 2;
  if (hello.completion_entries != 0) geometry.completion_entries = hello.completion_entries;
  if (hello.request_arena_bytes != 0) geometry.request_arena_bytes = hello.request_arena_bytes;
  if (hello.result_arena_bytes != 0) geometry.result_arena_bytes = hello.result_arena_bytes;
  if (auto check = ValidateGeometry(geometry); !check) {
    return Bad("hello." + check.error().message.substr(0, check.error().message.find(':')),
               check.error().message.substr(check.error().message.find(':') + 2));
  }
  std::ranges::copy(hello.session_token, checked.session_token.begin());
  checked.wants_map = (hello.flags & kHelloMap) != 0;
  checked.shares_prefixes = (hello.flags & kHelloNoPrefix) == 0;
  checked.returns = (hello.flags & kHelloReturns) != 0;
  checked.cache_salt = hello.cache_salt;
  checked.has_session_token =
      std::ranges::any_of(checked.session_token, [](std::uint8_t byte) { return byte != 0; });
  const std::string_view name(hello.name, sizeof hello.name);
  const std::size_t name_bytes = std::min(name.find('\0'), name.size());
  checked.name = name.substr(0, name_bytes);
  if (!std::ranges::all_of(checked.name, IsPrintableAscii)) {
    return Bad("hello.name", "holds bytes that are not printable ASCII");
  }
  if (name.find_first_not_of('\0', name_bytes) != std::string_view::npos) {
    return Bad("hello.name", "bytes behind its end are not zero");
  }
  return checked;
}

Result<ChannelGeometry> ValidateWelcome(const Welcome& welcome) {
  if (welcome.magic != kWelcomeMagic) {
    return Fail(Code::kCorrupt,
                "welcome.magic: " + Text(welcome.magic) + ": this is no kvd daemon");
  }
  if (welcome.version != kProtocolVersion) {
    return Fail(Code::kVersionMismatch, "welcome.version: the daemon speaks protocol " +
                                            Text(welcome.version) + ", this client " +
                                            Text(kProtocolVersion));
  }
  if (welcome.code > static_cast<std::uint8_t>(kCodeLast)) {
    return Fail(Code::kCorrupt, "welcome.code: " + Text(welcome.code) + " is no code");
  }
  if (welcome.code != static_cast<std::uint8_t>(Code::kOk)) {
    std::string message(welcome.message, ::strnlen(welcome.message, sizeof welcome.message));
    if (!IsValidUtf8(message)) message = "refused, with a message that is not UTF-8";
    return Fail(static_cast<Code>(welcome.code), std::move(message));
  }
  if (welcome.descriptor_count != 2 && welcome.descriptor_count != 3) {
    return Fail(Code::kCorrupt,
                "welcome.descriptor_count: " + Text(welcome.descriptor_count) + ", 2 or 3 wanted");
  }
  if (welcome.reserved0 != 0) {
    return Fail(Code::kCorrupt, "welcome.reserved0: " + Text(welcome.reserved0) + ", 0 wanted");
  }
  if (welcome.vocab_size == 0) return Fail(Code::kCorrupt, "welcome.vocab_size: 0");
  auto geometry = GeometryOfSegments(welcome.submission_entries, welcome.completion_entries,
                                     welcome.request_segment_bytes, welcome.result_segment_bytes);
  if (!geometry) return Fail(Code::kCorrupt, "welcome." + geometry.error().message);
  return *geometry;
}

Status ValidateSubmission(const Submission& submission, const SubmissionLimits& limits) {
  if (!IsVerb(submission.verb)) {
    return Bad("verb", Text(submission.verb) + " is no verb");
  }
  const VerbRule& rule = kRules[submission.verb];
  const std::string verb(rule.name);
  const auto unknown_flags =
      submission.flags & ~(static_cast<unsigned>(rule.flags) | unsigned{kFlagRetry});
  if (unknown_flags != 0) {
    return Bad(verb + ".flags", Text(submission.flags) + ", of which " + Text(unknown_flags) +
                                    " mean nothing to it");
  }
  KVD_CHECK_OK(CheckReceived(verb, submission));
  if ((submission.sequence != 0) != (rule.sequences >= 1)) {
    return Bad(verb + ".sequence", Text(submission.sequence) +
                                       (rule.sequences >= 1 ? ", a handle wanted" : ", 0 wanted"));
  }
  if ((submission.sequence2 != 0) != (rule.sequences >= 2)) {
    return Bad(verb + ".sequence2", Text(submission.sequence2) +
                                        (rule.sequences >= 2 ? ", a handle wanted" : ", 0 wanted"));
  }
  KVD_CHECK_OK(CheckRange(rule, verb, submission));
  if (submission.argument < rule.argument_min || submission.argument > rule.argument_max) {
    return Bad(verb + ".argument", Text(submission.argument) + " is not in [" +
                                       Text(rule.argument_min) + ", " + Text(rule.argument_max) +
                                       "]");
  }
  return CheckPayload(rule, verb, submission, limits);
}

Status ValidateCompletion(const Completion& completion, std::uint64_t result_arena_bytes) {
  if (!IsVerb(completion.verb)) {
    return Fail(Code::kCorrupt, "completion.verb: " + Text(completion.verb) + " is no verb");
  }
  if (completion.code > static_cast<std::uint8_t>(kCodeLast)) {
    return Fail(Code::kCorrupt, "completion.code: " + Text(completion.code) + " is no code");
  }
  if ((completion.flags & ~static_cast<unsigned>(kMore)) != 0) {
    return Fail(Code::kCorrupt,
                "completion.flags: " + Text(completion.flags) + " has unknown bits");
  }
  if (completion.output_bytes == 0) return {};
  const std::uint64_t offset = completion.output_cursor % result_arena_bytes;
  if (offset % kOutputAlignment != 0 || completion.output_bytes > result_arena_bytes - offset) {
    return Fail(Code::kCorrupt, "completion.output_cursor: " + Text(completion.output_cursor) +
                                    " + " + Text(completion.output_bytes) +
                                    " bytes is no piece of an arena of " +
                                    Text(result_arena_bytes));
  }
  return {};
}

}  // namespace kvd::wire
