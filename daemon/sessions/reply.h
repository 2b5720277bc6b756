// Reply: the answer of a metadata verb, before it is divided into completions.
//
// Reply is a plain value. The service creates a Reply on the io thread or, for long work, on a
// worker; the conversation sends it.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "daemon/sessions/shares.h"
#include "shm/verb_slots.h"

namespace kvd {

struct Reply {
  // Result of the verb; if the code is not kOk, `output` is the error's message.
  Code code = Code::kOk;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::int64_t value0 = 0;
  std::int64_t value1 = 0;
  std::int64_t value2 = 0;
  std::vector<std::byte> output;
  // If unit_bytes is not 0, output larger than one piece is divided at multiples of unit_bytes. If
  // unit_bytes is 0, output is divided only if it is larger than the arena.
  std::uint32_t unit_bytes = 0;
  SharedShare share{};  // the share that counts the output; null: the output is not counted yet

  template <class T>
  void Append(const T& value) {
    AppendBytes(std::as_bytes(std::span(&value, 1)));
  }
  void AppendText(std::string_view text) { AppendBytes(std::as_bytes(std::span(text))); }
  void AppendBytes(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t held_bytes = output.size();
    output.resize(held_bytes + bytes.size());
    std::memcpy(output.data() + held_bytes, bytes.data(), bytes.size());
  }
};

inline Reply ErrorReply(const Error& error) {
  Reply reply{.code = error.code, .output = {}};
  reply.AppendText(error.message);
  return reply;
}

// Converts the typed reply of a verb (shm/verbs_*.h) to a Reply.
template <class Typed>
Reply MakeReply(Typed typed) {
  wire::ReplySlots slots;
  wire::PutReply(typed, &slots);
  return {.sequence = static_cast<SequenceHandle>(slots[wire::ReplySlot::kSequence]),
          .value0 = slots[wire::ReplySlot::kValue0],
          .value1 = slots[wire::ReplySlot::kValue1],
          .value2 = slots[wire::ReplySlot::kValue2],
          .output = wire::TakeOutput(typed),
          .unit_bytes = wire::UnitBytesOf<Typed>()};
}
inline Reply MakeReply(Reply reply) { return reply; }

// Sets code, sequence and values of a completion. The caller of PutReply sends the output.
inline void PutReply(const Reply& reply, wire::Completion* completion) {
  completion->code = static_cast<std::uint8_t>(reply.code);
  completion->sequence = static_cast<std::uint64_t>(reply.sequence);
  completion->value0 = reply.value0;
  completion->value1 = reply.value1;
  completion->value2 = reply.value2;
}

template <class Typed>
Reply ReplyOf(Result<Typed> result) {
  return result ? MakeReply(std::move(*result)) : ErrorReply(result.error());
}

// The type of an Outcome says how a submission is answered: a Reply is sent at once, a WorkCall
// computes the answer on a worker, and with AnsweredByScheduler the scheduler sends the answer.
struct AnsweredByScheduler {};
struct WorkCall {
  // `call` computes the answer. A call may take long, but returns soon after its WorkControl has
  // returned kCancelled.
  std::function<Reply(WorkControl&)> call;
  // If the connection is closed, `abandoned` is called on the io thread and the answer is not sent.
  // `abandoned` may be empty.
  std::function<void()> abandoned{};
};
using Outcome = std::variant<Reply, WorkCall, AnsweredByScheduler>;

}  // namespace kvd
