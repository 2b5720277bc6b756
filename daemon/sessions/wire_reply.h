// WireReply: a verb's reply as the client receives it: the completion, into which the typed reply
// (shm/verbs_*.h) is written once, and the output.
//
// WireReply is a plain value. A handler creates it on the io thread or, for long work, on a worker;
// a computing request creates it on the engine thread. The sender sets the completion's request and
// verb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/sessions/shares.h"
#include "shm/verb_slots.h"

namespace kvd {

struct WireReply {
  wire::Completion completion{};
  // The bytes that follow the completion; if the code is not kOk, the error's message.
  std::vector<std::byte> output{};
  // If unit_bytes is not 0, output larger than one piece is divided at multiples of unit_bytes. If
  // unit_bytes is 0, output is divided only if it is larger than the arena.
  std::uint32_t unit_bytes = 0;
  SharedShare share{};  // the share that counts the output; null: the output is not counted yet

  Code code() const { return static_cast<Code>(completion.code); }
  void SetRequest(RequestId request, std::uint16_t verb) {
    completion.request = static_cast<std::uint64_t>(request);
    completion.verb = verb;
  }
  // Makes the reply an error; the values of the completion stay.
  void SetError(Code code, std::string_view message) {
    completion.code = static_cast<std::uint8_t>(code);
    const auto bytes = std::as_bytes(std::span(message));
    output.assign(bytes.begin(), bytes.end());
  }
};

inline WireReply ErrorReply(const Error& error) {
  WireReply reply;
  reply.SetError(error.code, error.message);
  return reply;
}

// Writes the typed reply of a verb into `completion`, whose other fields stay.
template <class Typed>
WireReply MakeReply(Typed typed, const wire::Completion& completion = {}) {
  WireReply reply{.completion = completion, .unit_bytes = wire::UnitBytesOf<Typed>()};
  wire::PutReply(typed, &reply.completion);
  reply.output = wire::TakeOutput(typed);
  return reply;
}
inline WireReply MakeReply(WireReply reply) { return reply; }

template <class Typed>
WireReply ReplyOf(Result<Typed> result) {
  return result ? MakeReply(std::move(*result)) : ErrorReply(result.error());
}

}  // namespace kvd
