// Reply: what a metadata verb answers, before it is cut into completions.
//
// A plain value, made by the service (on the io thread, or by workers for what takes long), sent by
// the conversation.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/shares.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/verb_slots.h"
#include "shm/work_control.h"

namespace kvd {

struct Reply {
  Code code = Code::kOk;  // else `output` is the error's message
  SequenceHandle sequence = SequenceHandle::kNone;
  std::int64_t value0 = 0;
  std::int64_t value1 = 0;
  std::int64_t value2 = 0;
  std::vector<std::byte> output;
  // Output larger than one piece is cut at multiples of this; 0: only if it is larger than the
  // arena.
  std::uint32_t unit_bytes = 0;
  SharedShare share{};  // of the output, if it is counted already

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

// The typed reply of a verb (shm/verbs_*.h), as it is sent.
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

// The slots of a completion; its output is the caller's to send.
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

// How a submission continues: answered now, by a call that workers make, or by the scheduler.
struct AnsweredByScheduler {};
struct WorkCall {
  // May take long; returns soon after its control has said kCancelled.
  std::function<Reply(WorkControl&)> call;
  // On the io thread, instead of answering: the client has gone. May be empty.
  std::function<void()> abandoned{};
};
using Outcome = std::variant<Reply, WorkCall, AnsweredByScheduler>;

}  // namespace kvd
