// Checks of messages from a peer, and the errors of fields that are out of their ranges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "shm/channel_geometry.h"
#include "shm/wire_messages.h"

namespace kvd::wire {

// The error of a field that is out of its range.

// "FIELD: SENTENCE", kInvalidArgument.
inline std::unexpected<Error> BadField(std::string_view field, std::string_view sentence) {
  return Fail(Code::kInvalidArgument, field, ": ", sentence);
}

// Validators of fixed-size messages from a peer: the daemon validates Hello and Submission, the
// client validates Welcome and Completion. Payload parsers are in shm/payload_codec.h.
//
// The validators are pure functions of a private copy of the message. Every error message names the
// field, the value found and the limit.

// Checks a name of a snapshot, daemon or stored file: [A-Za-z0-9_-][A-Za-z0-9._-]{0,62}. Error:
// kInvalidArgument.
Status ValidateName(std::string_view name);

// Reads the 16 bytes of a tenant (Hello::tenant) from 32 hexadecimal digits. Error:
// kInvalidArgument.
Result<std::array<std::uint8_t, 16>> ParseTenantId(std::string_view digits);

// A Hello with its defaults filled in.
struct CheckedHello {
  ChannelGeometry geometry;
  // Token of the session to resume; all zero: the client wants a new session.
  std::array<std::uint8_t, 16> session_token;
  bool has_session_token = false;
  bool wants_map = false;
  bool shares_prefixes = true;
  bool returns = false;
  std::uint64_t cache_salt = 0;
  std::array<std::uint8_t, 16> tenant{};  // all zero: no tenant
  std::uint32_t outlive_seconds = 0;      // at most kOutliveSecondsMax
  std::string name;
};

// Errors: kInvalidArgument (magic, a field), kVersionMismatch (naming both versions).
Result<CheckedHello> ValidateHello(const Hello& hello);

// ValidateWelcome is the client's check of a Welcome. If the daemon has refused the hello, the
// function returns the daemon's code and message as the Error. Other errors: kCorrupt (not a
// Welcome, an invalid field), kVersionMismatch.
Result<ChannelGeometry> ValidateWelcome(const Welcome& welcome);

// Limits of a submission that depend on the daemon and the client's arena.
struct SubmissionLimits {
  std::uint64_t arena_bytes = 0;  // size of the client's request arena
  // Number of cells of the pool.
  std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max();
};

// Checks that verb and flags are known and match each other, that reserved fields are zero, that
// the payload lies inside the arena and has a size that the verb allows, and that the arguments are
// in their ranges. The daemon makes checks that need its state later. Errors: kInvalidArgument;
// kTooLarge (more tokens than the pool has cells).
Status ValidateSubmission(const Submission& submission, const SubmissionLimits& limits);

// Checks that verb, code and flags are known and that the output lies inside the arena, without
// crossing its end. Error: kCorrupt.
Status ValidateCompletion(const Completion& completion, std::uint64_t result_arena_bytes);

// Returns the verb's stable name ("copy_range"), for logs and errors; "unknown" for an unknown
// number.
std::string_view VerbName(std::uint16_t verb);

}  // namespace kvd::wire
