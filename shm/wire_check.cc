#include "shm/wire_check.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/name.h"
#include "base/utf8.h"
#include "shm/verb_table.h"

namespace kvd::wire {

// A submission is checked slot by slot against the row of its verb.

namespace {

template <class Integer>
std::string Text(Integer number) {
  return std::to_string(number);
}

Status CheckSlot(const VerbRow& row, ArgumentSlot slot, const Submission& submission) {
  constexpr std::string_view kSlotNames[] = {"sequence", "sequence2", "p0", "p1", "argument"};
  const SlotRule& rule = row.slot(slot);
  const std::int64_t number = GetSlot(submission, slot);
  const auto field = [&] {
    const std::string_view name =
        rule.name.empty() ? kSlotNames[static_cast<std::size_t>(slot)] : rule.name;
    return std::string(row.name) + "." + std::string(name);
  };
  switch (rule.kind) {
    case SlotKind::kUnused:
      if (number == 0) return {};
      return BadField(field(), Text(number) + ", 0 wanted: the verb has no such argument");
    case SlotKind::kHandle:
      if (number != 0) return {};
      return BadField(field(), "0, a handle wanted");
    case SlotKind::kNumber:
    case SlotKind::kPosition:
      if (number >= rule.min && number <= rule.max) return {};
      return BadField(field(),
                      Text(number) + " is not in [" + Text(rule.min) + ", " + Text(rule.max) + "]");
    case SlotKind::kRangeBegin: return {};
    case SlotKind::kRangeEnd:
      if (number < 0 || number >= submission.p0) return {};
      return BadField(field(), Text(number) + " is before p0, " + Text(submission.p0));
  }
  return {};
}

Status CheckPayload(const VerbRow& row, const Submission& submission,
                    const SubmissionLimits& limits) {
  const auto field = [&](const char* name) { return std::string(row.name) + name; };
  const PayloadRule& rule = row.payload;
  const std::uint32_t payload_bytes = submission.payload_bytes;
  const std::uint64_t payload_max = rule.BytesMax(limits.tokens_max);
  if (payload_bytes > payload_max && rule.has_tokens) {
    // A lower bound of the payload's number of tokens; the bound is exact if the other parts of the
    // payload have their largest sizes.
    const std::uint64_t tokens =
        (payload_bytes - rule.bytes_max + sizeof(TokenId) - 1) / sizeof(TokenId);
    return Fail(Code::kTooLarge, field(".tokens: "), Text(tokens), ", the pool has ",
                Text(limits.tokens_max), " cells");
  }
  if (payload_bytes < rule.bytes_min || payload_bytes > payload_max) {
    return BadField(field(".payload_bytes"), Text(payload_bytes) + " is not in [" +
                                                 Text(rule.bytes_min) + ", " + Text(payload_max) +
                                                 "]");
  }
  if (payload_bytes % rule.unit != 0) {
    return BadField(field(".payload_bytes"),
                    Text(payload_bytes) + " is no multiple of " + Text(rule.unit));
  }
  if (payload_bytes > limits.arena_bytes ||
      submission.payload_offset > limits.arena_bytes - payload_bytes) {
    return BadField(field(".payload_offset"), Text(submission.payload_offset) + " + " +
                                                  Text(payload_bytes) + " bytes, the arena has " +
                                                  Text(limits.arena_bytes));
  }
  return {};
}

Status CheckReceived(const VerbRow& row, const Submission& submission) {
  const bool is_again = (submission.flags & kFlagRetry) != 0;
  if (submission.received != 0 && !(is_again && row.received != Received::kNothing)) {
    return BadField(std::string(row.name) + ".received", Text(submission.received) + ", 0 wanted");
  }
  const bool has_token = submission.received != 0 && row.received == Received::kTokens;
  if (submission.last_token < 0 || (submission.last_token != 0 && !has_token)) {
    return BadField(std::string(row.name) + ".last_token",
                    Text(submission.last_token) + (has_token ? " is not a token" : ", 0 wanted"));
  }
  return {};
}

bool IsPrintableAscii(char c) { return c >= 0x20 && c <= 0x7e; }

}  // namespace

std::string_view VerbName(std::uint16_t verb) {
  const VerbRow* const row = FindVerb(verb);
  return row != nullptr ? row->name : "unknown";
}

Status ValidateName(std::string_view name) {
  if (name.empty() || name.size() > kNameMax) {
    return BadField("name", Concat(name.size(), " bytes, must be 1 to ", kNameMax));
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (IsNameCharacter(name[i], i == 0)) continue;
    const auto byte = static_cast<unsigned char>(name[i]);
    const std::string shown =
        IsPrintableAscii(name[i]) ? Concat("'", name[i], "'") : Concat("the byte ", byte);
    return BadField("name", Concat(shown, i == 0 ? " begins it" : " is in it",
                                   "; only letters, digits, '_', '-' and (not first) '.' are "
                                   "allowed"));
  }
  return {};
}

Result<std::array<std::uint8_t, 16>> ParseTenantId(std::string_view digits) {
  std::array<std::uint8_t, 16> id{};
  const auto fail = [&] {
    return BadField("tenant", Concat("'", digits.substr(0, 40), "' is not ", 2 * id.size(),
                                     " hexadecimal digits"));
  };
  if (digits.size() != 2 * id.size()) return fail();
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* const first = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, id[i], 16);
    if (error != std::errc() || end != first + 2) return fail();
  }
  return id;
}

Result<CheckedHello> ValidateHello(const Hello& hello) {
  if (hello.magic != kHelloMagic) {
    return BadField("hello.magic", Text(hello.magic) + ": not a kvd client");
  }
  if (hello.version != kProtocolVersion) {
    return Fail(Code::kVersionMismatch, "hello.version: the client speaks protocol ",
                Text(hello.version), ", the daemon speaks ", Text(kProtocolVersion));
  }
  if ((hello.flags & ~kHelloFlagsAll) != 0) {
    return BadField("hello.flags", Text(hello.flags) + ", of which " +
                                       Text(hello.flags & ~kHelloFlagsAll) + " are unknown");
  }
  if (std::ranges::any_of(hello.reserved, [](std::uint8_t byte) { return byte != 0; })) {
    return BadField("hello.reserved", "not zero");
  }
  CheckedHello checked;
  ChannelGeometry& geometry = checked.geometry;
  if (hello.submission_entries != 0) geometry.submission_entries = hello.submission_entries;
  // The default number of completion entries is twice the number of submission entries, but at most
  // kEntriesMax. A number of submission entries beyond the limit stays unchanged, so that
  // ValidateGeometry refuses it.
  geometry.completion_entries = std::min(geometry.submission_entries, kEntriesMax / 2) * 2;
  if (hello.completion_entries != 0) geometry.completion_entries = hello.completion_entries;
  if (hello.request_arena_bytes != 0) geometry.request_arena_bytes = hello.request_arena_bytes;
  if (hello.result_arena_bytes != 0) geometry.result_arena_bytes = hello.result_arena_bytes;
  if (auto check = ValidateGeometry(geometry); !check) {
    return BadField("hello." + check.error().message.substr(0, check.error().message.find(':')),
                    check.error().message.substr(check.error().message.find(':') + 2));
  }
  std::ranges::copy(hello.session_token, checked.session_token.begin());
  checked.wants_map = (hello.flags & kHelloMap) != 0;
  checked.shares_prefixes = (hello.flags & kHelloNoPrefix) == 0;
  checked.returns = (hello.flags & kHelloReturns) != 0;
  checked.cache_salt = hello.cache_salt;
  std::ranges::copy(hello.tenant, checked.tenant.begin());
  if (hello.outlive_seconds > kOutliveSecondsMax) {
    return BadField("hello.outlive_seconds", Text(hello.outlive_seconds) + " is not in [0, " +
                                                 Text(kOutliveSecondsMax) + "]");
  }
  checked.outlive_seconds = hello.outlive_seconds;
  checked.has_session_token =
      std::ranges::any_of(checked.session_token, [](std::uint8_t byte) { return byte != 0; });
  const std::string_view name(hello.name, sizeof hello.name);
  const std::size_t name_bytes = std::min(name.find('\0'), name.size());
  checked.name = name.substr(0, name_bytes);
  if (!std::ranges::all_of(checked.name, IsPrintableAscii)) {
    return BadField("hello.name", "holds bytes that are not printable ASCII");
  }
  if (name.find_first_not_of('\0', name_bytes) != std::string_view::npos) {
    return BadField("hello.name", "bytes after its end are not zero");
  }
  return checked;
}

Result<ChannelGeometry> ValidateWelcome(const Welcome& welcome) {
  if (welcome.magic != kWelcomeMagic) {
    return Fail(Code::kCorrupt, "welcome.magic: ", Text(welcome.magic), ": not a kvd daemon");
  }
  if (welcome.version != kProtocolVersion) {
    return Fail(Code::kVersionMismatch, "welcome.version: the daemon speaks protocol ",
                Text(welcome.version), ", this client speaks ", Text(kProtocolVersion));
  }
  if (welcome.code > static_cast<std::uint8_t>(kCodeLast)) {
    return Fail(Code::kCorrupt, "welcome.code: ", Text(welcome.code), " is not a code");
  }
  if (welcome.code != static_cast<std::uint8_t>(Code::kOk)) {
    std::string message(welcome.message, ::strnlen(welcome.message, sizeof welcome.message));
    if (!IsValidUtf8(message)) message = "refused, with a message that is not UTF-8";
    return Fail(static_cast<Code>(welcome.code), std::move(message));
  }
  if (welcome.descriptor_count != 2 && welcome.descriptor_count != 3) {
    return Fail(Code::kCorrupt, "welcome.descriptor_count: ", Text(welcome.descriptor_count),
                ", 2 or 3 wanted");
  }
  if (welcome.reserved0 != 0) {
    return Fail(Code::kCorrupt, "welcome.reserved0: ", Text(welcome.reserved0), ", 0 wanted");
  }
  if (welcome.vocab_size == 0) return Fail(Code::kCorrupt, "welcome.vocab_size: 0");
  auto geometry = GeometryOfSegments(welcome.submission_entries, welcome.completion_entries,
                                     welcome.request_segment_bytes, welcome.result_segment_bytes);
  if (!geometry) return Fail(Code::kCorrupt, "welcome.", geometry.error().message);
  return *geometry;
}

Status ValidateSubmission(const Submission& submission, const SubmissionLimits& limits) {
  const VerbRow* const row = FindVerb(submission.verb);
  if (row == nullptr) return BadField("verb", Text(submission.verb) + " is not a verb");
  const auto unknown_flags =
      submission.flags & ~(static_cast<unsigned>(row->flags) | unsigned{kFlagRetry});
  if (unknown_flags != 0) {
    return BadField(std::string(row->name) + ".flags",
                    Text(submission.flags) + ", of which " + Text(unknown_flags) + " do not apply");
  }
  KVD_CHECK_OK(CheckReceived(*row, submission));
  for (std::size_t slot = 0; slot < kArgumentSlots; ++slot) {
    KVD_CHECK_OK(CheckSlot(*row, static_cast<ArgumentSlot>(slot), submission));
  }
  return CheckPayload(*row, submission, limits);
}

Status ValidateCompletion(const Completion& completion, std::uint64_t result_arena_bytes) {
  if (FindVerb(completion.verb) == nullptr) {
    return Fail(Code::kCorrupt, "completion.verb: ", Text(completion.verb), " is not a verb");
  }
  if (completion.code > static_cast<std::uint8_t>(kCodeLast)) {
    return Fail(Code::kCorrupt, "completion.code: ", Text(completion.code), " is not a code");
  }
  if ((completion.flags & ~static_cast<unsigned>(kMore)) != 0) {
    return Fail(Code::kCorrupt, "completion.flags: ", Text(completion.flags), " has unknown bits");
  }
  if (completion.output_bytes == 0) return {};
  const std::uint64_t offset = completion.output_cursor % result_arena_bytes;
  if (offset % kOutputAlignment != 0 || completion.output_bytes > result_arena_bytes - offset) {
    return Fail(Code::kCorrupt, "completion.output_cursor: ", Text(completion.output_cursor), " + ",
                Text(completion.output_bytes), " bytes is not a piece of an arena of ",
                Text(result_arena_bytes));
  }
  return {};
}

}  // namespace kvd::wire
