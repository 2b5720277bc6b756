// The fixed slots of a Submission and a Completion as typed arguments and replies of verbs.
//
// A type of arguments lists its members in `Slots()`, each with its slot and what it may hold; a
// type of replies lists the members that lie in slots, and names in `Output()` the member that is
// the answer's output. Encoding, decoding and validation all come from these lists, so a member that
// is added is sent, read and checked. A slot that is not listed is 0.
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

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/wire_messages.h"

namespace kvd::wire {

inline constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

// -------------------------------------------------------------------------------------- arguments

enum class ArgumentSlot : std::uint8_t { kSequence, kSequence2, kP0, kP1, kArgument };
inline constexpr std::size_t kArgumentSlots = 5;

// What a caller must be allowed to do with the sequence, snapshot or file that a request names
// (daemon/permissions.h).
enum class Access : std::uint8_t {
  kNone,    // nothing: a name that the request makes
  kRead,    // list, read, fork
  kChange,  // drop, hand over, replace
  kEdit,    // kChange, and no computing request works on it
  kOwn,     // it is a private sequence of the calling session
};

enum class SlotKind : std::uint8_t {
  kUnused,      // 0
  kHandle,      // a sequence: not 0
  kNumber,      // in [min, max]
  kPosition,    // the same, a position that is the sequence's next one
  kRangeBegin,  // of a half-open range of positions: a negative begin is 0,
  kRangeEnd,    // a negative end is open, and another one is not before the begin
};

// What a slot of a submission may hold. `name` is the argument's, for errors.
struct SlotRule {
  SlotKind kind = SlotKind::kUnused;
  std::string_view name{};
  std::int64_t min = 0;
  std::int64_t max = 0;
  Access access = Access::kNone;  // of kHandle
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
// In the slot of p0.
template <class Args, class T>
constexpr auto Position(std::string_view name, T Args::* member, std::int64_t min) {
  return ArgumentMember<Args, T>{
      member,
      ArgumentSlot::kP0,
      {.kind = SlotKind::kPosition, .name = name, .min = min, .max = kInt32Max}};
}
// In the slots of p0 and p1.
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

// A value as the number of a slot, and back. An optional without a value is -1.
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

// Calls visit(member) for each listed one.
template <class T, class Visit>
constexpr void ForEachSlot(Visit visit) {
  if constexpr (HasSlots<T>) {
    std::apply([&](const auto&... member) { (visit(member), ...); }, T::Slots());
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

// Fills the slots of the arguments; the others stay as they are.
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
// REQUIRES: ValidateSubmission has passed it.
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
  bool is_required = false;  // a reply without it is corrupt
};

template <class Reply, class T>
constexpr auto At(ReplySlot slot, T Reply::* member) {
  return ReplyMember<Reply, T>{member, slot};
}
// A sequence that the request has made.
template <class Reply>
constexpr auto Made(SequenceHandle Reply::* member) {
  return ReplyMember<Reply, SequenceHandle>{member, ReplySlot::kSequence, true};
}

// The slots of a completion by themselves.
struct ReplySlots {
  std::int64_t numbers[4] = {};
  constexpr std::int64_t& operator[](ReplySlot slot) {
    return numbers[static_cast<std::size_t>(slot)];
  }
  constexpr std::int64_t operator[](ReplySlot slot) const {
    return numbers[static_cast<std::size_t>(slot)];
  }
};

template <class Reply>
constexpr void PutReply(const Reply& reply, ReplySlots* slots) {
  ForEachSlot<Reply>([&]<class T>(const ReplyMember<Reply, T>& member) {
    (*slots)[member.slot] = ToSlot(reply.*member.member);
  });
}

// Fills its slots of a completion; the others stay as they are.
template <class Reply>
constexpr void PutReply(const Reply& reply, Completion* completion) {
  ReplySlots slots{{static_cast<std::int64_t>(completion->sequence), completion->value0,
                    completion->value1, completion->value2}};
  PutReply(reply, &slots);
  completion->sequence = static_cast<std::uint64_t>(slots[ReplySlot::kSequence]);
  completion->value0 = slots[ReplySlot::kValue0];
  completion->value1 = slots[ReplySlot::kValue1];
  completion->value2 = slots[ReplySlot::kValue2];
}

// The output of a reply: a list of records, one record, or bytes.
template <class Reply>
concept HasOutput = requires { Reply::Output(); };

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

// Where an output that is sent in pieces may be cut; 0: nowhere but where the arena ends.
template <class Reply>
constexpr std::uint32_t UnitBytesOf() {
  if constexpr (HasOutput<Reply>) {
    using Member = std::remove_cvref_t<decltype(std::declval<Reply&>().*Reply::Output())>;
    if constexpr (kIsList<Member>) return sizeof(typename Member::value_type);
  }
  return 0;
}

// REQUIRES: `bytes` has whole records.
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

// The client's side. `output`: all of it, put together; bytes may be moved out of it. Error:
// kCorrupt, naming the verb.
template <class Reply>
Result<Reply> ReadReply(std::string_view verb, const Completion& completion,
                        std::vector<std::byte>& output) {
  Reply reply{};
  const ReplySlots slots{{static_cast<std::int64_t>(completion.sequence), completion.value0,
                          completion.value1, completion.value2}};
  bool is_complete = true;
  ForEachSlot<Reply>([&]<class T>(const ReplyMember<Reply, T>& member) {
    const std::int64_t number = slots[member.slot];
    if (member.is_required && number == 0) is_complete = false;
    reply.*member.member = FromSlot<T>(number);
  });
  if (!is_complete) {
    return Fail(Code::kCorrupt, "answer to " + std::string(verb) + ": no sequence in it");
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
        return Fail(Code::kCorrupt, "answer to " + std::string(verb) + ": " +
                                        std::to_string(output.size()) + " bytes, " +
                                        (is_one ? "a record of " : "records of ") +
                                        std::to_string(sizeof(Record)) + " wanted");
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

// What is remembered of a request that was applied, for its answer when it is sent again.
struct Remembered {
  SequenceHandle sequence = SequenceHandle::kNone;  // the first that it made, or that it changed
  std::uint32_t cells = 0;                          // as the verb counts them
  std::uint32_t replayed = 0;
  std::span<const SequenceHandle> made{};  // of the sequences that it made, those that are left
  TokenId start_token = -1;                // of the model's decoder
};

// ------------------------------------------------------------------- replies of more than one verb

// The answer says that it was done.
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

// A sequence that a verb made from another one.
struct ForkedReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t nanoseconds = 0;  // spent in the engine
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return std::tuple{Made(&ForkedReply::sequence),
                      At(ReplySlot::kValue0, &ForkedReply::nanoseconds),
                      At(ReplySlot::kValue1, &ForkedReply::cells)};
  }
  template <class Args>
  static Result<ForkedReply> Again(const Args&, const Remembered& done) {
    return ForkedReply{.sequence = done.sequence, .cells = done.cells};
  }
};

}  // namespace kvd::wire
