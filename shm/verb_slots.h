// Maps the fixed slots of a Submission and a Completion to typed arguments and replies of verbs.
//
// An argument type lists its members in `Slots()`, each with its slot and the values that the
// member may hold. A reply type lists in `Slots()` the members that are sent in slots, and
// `Output()` returns the member that is sent as the answer's output. Encoding, decoding and
// validation are derived from these lists, so a member that is added to a list is encoded, decoded
// and validated. A slot of a message that no member uses is 0.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/wire_messages.h"

namespace kvd::wire {

inline constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

// -------------------------------------------------------------------------------------- arguments

enum class ArgumentSlot : std::uint8_t { kSequence, kSequence2, kP0, kP1, kArgument };
inline constexpr std::size_t kArgumentSlots = 5;

// The access that a caller needs to the sequence, snapshot or file that a request names
// (daemon/sessions/owners.h).
enum class Access : std::uint8_t {
  kNone,    // no access is needed, because the request creates the object
  kRead,    // the caller lists, reads or forks the object
  kChange,  // the caller drops or replaces the object or changes its owner
  // The access of kChange; in addition, no computing request may be working on the sequence.
  kEdit,
  kOwn,  // the sequence must be a private sequence of the calling session
};

enum class SlotKind : std::uint8_t {
  kUnused,  // 0
  kHandle,  // the slot holds the handle of a sequence, which is not 0
  kNumber,  // the slot holds a number in [min, max]
  // The slot holds a position in [min, max], which must equal the sequence's next position.
  kPosition,
  kRangeBegin,  // the begin of a half-open range of positions; negative: 0
  // The end of a half-open range; negative: the range has no end; otherwise at least the begin.
  kRangeEnd,
};

// The values that a slot of a submission may hold. `name` is the argument's name in errors.
struct SlotRule {
  SlotKind kind = SlotKind::kUnused;
  std::string_view name{};
  std::int64_t min = 0;
  std::int64_t max = 0;
  Access access = Access::kNone;  // for kHandle: the access to the sequence that the caller needs
};

template <class Args, class T>
struct ArgumentMember {
  T Args::* member;
  ArgumentSlot slot;
  SlotRule rule;
};

template <class Args>
constexpr auto Handle(std::string_view name, SequenceHandle Args::* member, Access access,
                      ArgumentSlot slot = ArgumentSlot::kSequence) {
  return ArgumentMember<Args, SequenceHandle>{
      member, slot, {.kind = SlotKind::kHandle, .name = name, .access = access}};
}
template <class Args, class T>
constexpr auto Number(std::string_view name, T Args::* member, ArgumentSlot slot, std::int64_t min,
                      std::int64_t max) {
  return ArgumentMember<Args, T>{
      member, slot, {.kind = SlotKind::kNumber, .name = name, .min = min, .max = max}};
}
// Returns how a verb encodes a position: in the first argument slot (p0) of its request.
template <class Args, class T>
constexpr auto Position(std::string_view name, T Args::* member, std::int64_t min) {
  return ArgumentMember<Args, T>{
      member,
      ArgumentSlot::kP0,
      {.kind = SlotKind::kPosition, .name = name, .min = min, .max = kInt32Max}};
}
// Returns how a verb encodes a range of positions: in the first two argument slots (p0, p1).
template <class Args>
constexpr auto Range(PosRange Args::* member) {
  return ArgumentMember<Args, PosRange>{
      member, ArgumentSlot::kP0, {.kind = SlotKind::kRangeBegin, .name = "p0"}};
}

constexpr std::int64_t GetSlot(const Submission& submission, ArgumentSlot slot) {
  switch (slot) {
    case ArgumentSlot::kSequence: return static_cast<std::int64_t>(submission.sequence);
    case ArgumentSlot::kSequence2: return static_cast<std::int64_t>(submission.sequence2);
    case ArgumentSlot::kP0: return submission.p0;
    case ArgumentSlot::kP1: return submission.p1;
    case ArgumentSlot::kArgument: return submission.argument;
  }
  return 0;
}
constexpr void SetSlot(Submission* submission, ArgumentSlot slot, std::int64_t number) {
  switch (slot) {
    case ArgumentSlot::kSequence: submission->sequence = static_cast<std::uint64_t>(number); return;
    case ArgumentSlot::kSequence2:
      submission->sequence2 = static_cast<std::uint64_t>(number);
      return;
    case ArgumentSlot::kP0: submission->p0 = static_cast<std::int32_t>(number); return;
    case ArgumentSlot::kP1: submission->p1 = static_cast<std::int32_t>(number); return;
    case ArgumentSlot::kArgument: submission->argument = number; return;
  }
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// ToSlot converts a value to the number of a slot, FromSlot converts the number back. An empty
// optional has the number -1.
template <class T>
constexpr std::int64_t ToSlot(const T& value) {
  if constexpr (kIsOptional<T>) {
    return value ? ToSlot(*value) : -1;
  } else if constexpr (std::same_as<T, Pos>) {
    return value.value;
  } else {
    static_assert(std::is_enum_v<T> || std::is_integral_v<T>);
    return static_cast<std::int64_t>(value);
  }
}
template <class T>
constexpr T FromSlot(std::int64_t number) {
  if constexpr (kIsOptional<T>) {
    if (number < 0) return std::nullopt;
    return FromSlot<typename T::value_type>(number);
  } else if constexpr (std::same_as<T, Pos>) {
    return Pos{static_cast<std::int32_t>(number)};
  } else {
    static_assert(std::is_enum_v<T> || std::is_integral_v<T>);
    return static_cast<T>(number);
  }
}

template <class T>
concept HasSlots = requires { T::Slots(); };

// Returns the value of Slots(): a function that visits the members. A std::tuple of them would take
// every file that includes the table of verbs half a second to compile.
template <class... Members>
constexpr auto Slotted(const Members&... members) {
  return [members...](const auto& visit) { (visit(members), ...); };
}

// Calls visit(member) for each listed member.
template <class T, class Visit>
constexpr void ForEachSlot(Visit visit) {
  if constexpr (HasSlots<T>) {
    T::Slots()(visit);
  }
}

template <class Args>
constexpr std::array<SlotRule, kArgumentSlots> SlotRulesOf() {
  std::array<SlotRule, kArgumentSlots> rules{};
  ForEachSlot<Args>([&]<class T>(const ArgumentMember<Args, T>& member) {
    rules[static_cast<std::size_t>(member.slot)] = member.rule;
    if constexpr (std::same_as<T, PosRange>) {
      rules[static_cast<std::size_t>(ArgumentSlot::kP1)] = {.kind = SlotKind::kRangeEnd,
                                                            .name = "p1"};
    }
  });
  return rules;
}

// Sets the slots of a submission that Args lists, and leaves the submission's other fields
// unchanged.
template <class Args>
constexpr void PutArguments(const Args& args, Submission* submission) {
  ForEachSlot<Args>([&]<class T>(const ArgumentMember<Args, T>& member) {
    const T& value = args.*member.member;
    if constexpr (std::same_as<T, PosRange>) {
      submission->p0 = value.begin.value;
      submission->p1 = value.end == kPosEnd ? -1 : value.end.value;
    } else {
      SetSlot(submission, member.slot, ToSlot(value));
    }
  });
}
// REQUIRES: the submission has passed ValidateSubmission.
template <class Args>
constexpr Args ReadArguments(const Submission& submission) {
  Args args{};
  ForEachSlot<Args>([&]<class T>(const ArgumentMember<Args, T>& member) {
    if constexpr (std::same_as<T, PosRange>) {
      args.*member.member = {.begin = Pos{submission.p0 < 0 ? 0 : submission.p0},
                             .end = submission.p1 < 0 ? kPosEnd : Pos{submission.p1}};
    } else {
      args.*member.member = FromSlot<T>(GetSlot(submission, member.slot));
    }
  });
  return args;
}

// ---------------------------------------------------------------------------------------- replies

enum class ReplySlot : std::uint8_t { kSequence, kValue0, kValue1, kValue2 };

template <class Reply, class T>
struct ReplyMember {
  T Reply::* member;
  ReplySlot slot;
  bool is_required = false;  // true: a reply with 0 in this slot is corrupt
};

template <class Reply, class T>
constexpr auto At(ReplySlot slot, T Reply::* member) {
  return ReplyMember<Reply, T>{member, slot};
}
// Returns the description of a reply's member that is the handle of a sequence that the request has
// created. A reply with 0 instead of this handle is corrupt.
template <class Reply>
constexpr auto Made(SequenceHandle Reply::* member) {
  return ReplyMember<Reply, SequenceHandle>{member, ReplySlot::kSequence, true};
}

constexpr std::int64_t GetSlot(const Completion& completion, ReplySlot slot) {
  switch (slot) {
    case ReplySlot::kSequence: return static_cast<std::int64_t>(completion.sequence);
    case ReplySlot::kValue0: return completion.value0;
    case ReplySlot::kValue1: return completion.value1;
    case ReplySlot::kValue2: return completion.value2;
  }
  return 0;
}
constexpr void SetSlot(Completion* completion, ReplySlot slot, std::int64_t number) {
  switch (slot) {
    case ReplySlot::kSequence: completion->sequence = static_cast<std::uint64_t>(number); return;
    case ReplySlot::kValue0: completion->value0 = number; return;
    case ReplySlot::kValue1: completion->value1 = number; return;
    case ReplySlot::kValue2: completion->value2 = number; return;
  }
}

// Sets the slots of a completion that Reply lists, and leaves the completion's other fields
// unchanged.
template <class Reply>
constexpr void PutReply(const Reply& reply, Completion* completion) {
  ForEachSlot<Reply>([&]<class T>(const ReplyMember<Reply, T>& member) {
    SetSlot(completion, member.slot, ToSlot(reply.*member.member));
  });
}

// The output of a reply: a list of records, one record, or bytes.
template <class Reply>
concept HasOutput = requires { Reply::Output(); };

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

// Returns the number of bytes at whose multiples the output of a reply may be cut into pieces; 0:
// the output is cut only if it is larger than the arena.
template <class Reply>
constexpr std::uint32_t UnitBytesOf() {
  if constexpr (HasOutput<Reply>) {
    using Member = std::remove_cvref_t<decltype(std::declval<Reply&>().*Reply::Output())>;
    if constexpr (kIsList<Member>) return sizeof(typename Member::value_type);
  }
  return 0;
}

// REQUIRES: `bytes` consists of whole records.
template <class T>
std::vector<T> CopyRecords(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> records(bytes.size() / sizeof(T));
  if (!records.empty()) std::memcpy(records.data(), bytes.data(), records.size() * sizeof(T));
  return records;
}

template <class Reply>
std::vector<std::byte> TakeOutput(Reply& reply) {
  if constexpr (HasOutput<Reply>) {
    auto& output = reply.*Reply::Output();
    using Member = std::remove_cvref_t<decltype(output)>;
    if constexpr (std::same_as<Member, std::vector<std::byte>>) {
      return std::move(output);
    } else if constexpr (kIsList<Member>) {
      const auto bytes = std::as_bytes(std::span(output));
      return {bytes.begin(), bytes.end()};
    } else {
      static_assert(std::is_trivially_copyable_v<Member>);
      const auto bytes = std::as_bytes(std::span(&output, 1));
      return {bytes.begin(), bytes.end()};
    }
  }
  return {};
}

// The client builds a reply with ReadReply from a completion and the whole output, assembled from
// all pieces. ReadReply may move the bytes out of `output`. Error: kCorrupt, naming the verb.
template <class Reply>
Result<Reply> ReadReply(std::string_view verb, const Completion& completion,
                        std::vector<std::byte>& output) {
  Reply reply{};
  bool is_complete = true;
  ForEachSlot<Reply>([&]<class T>(const ReplyMember<Reply, T>& member) {
    const std::int64_t number = GetSlot(completion, member.slot);
    if (member.is_required && number == 0) is_complete = false;
    reply.*member.member = FromSlot<T>(number);
  });
  if (!is_complete) {
    return Fail(Code::kCorrupt, "answer to ", verb, ": sequence: 0, a handle wanted");
  }
  if constexpr (HasOutput<Reply>) {
    auto& member = reply.*Reply::Output();
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::same_as<Member, std::vector<std::byte>>) {
      member = std::move(output);
    } else {
      using Record = typename decltype([] {
        if constexpr (kIsList<Member>) {
          return std::type_identity<typename Member::value_type>{};
        } else {
          return std::type_identity<Member>{};
        }
      }())::type;
      const bool is_one = !kIsList<Member>;
      if (output.size() % sizeof(Record) != 0 || (is_one && output.size() != sizeof(Record))) {
        return Fail(Code::kCorrupt, "answer to ", verb, ": ", output.size(), " bytes, ",
                    (is_one ? "a record of " : "records of "), sizeof(Record), " wanted");
      }
      if constexpr (kIsList<Member>) {
        member = CopyRecords<Record>(output);
      } else {
        std::memcpy(&member, output.data(), sizeof member);
      }
    }
  }
  return reply;
}

// The stored result of an applied request, from which the daemon answers a retry of the request.
struct Remembered {
  // The first sequence that the request created, or the sequence that it changed.
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t cells = 0;     // the cell count of the verb's answer
  std::uint32_t replayed = 0;  // number of tokens that were replayed
  // Sequences that the request created and that still exist.
  std::span<const SequenceHandle> made{};
  // The start token of the model's decoder; -1: the model has no start token.
  TokenId start_token = -1;
};

// ----------------------------------------------------------------- replies of more than one verb

// An answer without values: the request was executed.
struct NoReply {
  template <class Args>
  static Result<NoReply> Again(const Args&, const Remembered&) {
    return NoReply{};
  }
};

struct TextReply {
  std::vector<std::byte> text;  // UTF-8
  static constexpr auto Output() { return &TextReply::text; }
};

template <class Record>
struct ListReply {
  std::vector<Record> entries;
  static constexpr auto Output() { return &ListReply::entries; }
};

template <class Record>
struct OneReply {
  Record record{};
  static constexpr auto Output() { return &OneReply::record; }
};

// The reply of a verb that forks one sequence.
struct ForkedReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t nanoseconds = 0;  // time spent in the engine
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return Slotted(Made(&ForkedReply::sequence), At(ReplySlot::kValue0, &ForkedReply::nanoseconds),
                   At(ReplySlot::kValue1, &ForkedReply::cells));
  }
  template <class Args>
  static Result<ForkedReply> Again(const Args&, const Remembered& done) {
    return ForkedReply{.sequence = done.sequence, .cells = done.cells};
  }
};

}  // namespace kvd::wire
