// Validators of the fixed-size messages that a peer sends: the daemon's of Hello and Submission,
// the client's of Welcome and Completion. Payload parsers are in shm/payload_codec.h.
//
// Pure functions of a private copy; every message names the field, what was found and the limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "shm/channel_geometry.h"
#include "shm/error.h"
#include "shm/wire_messages.h"

namespace kvd::wire {

// Names of snapshots, daemons and stored files: [A-Za-z0-9_-][A-Za-z0-9._-]{0,63}. Error:
// kInvalidArgument.
Status ValidateName(std::string_view name);

// A Hello with its defaults filled in.
struct CheckedHello {
  ChannelGeometry geometry;
  std::array<std::uint8_t, 16> session_token;  // all zero: a new session
  bool has_session_token = false;
  bool wants_map = false;
  bool shares_prefixes = true;
  bool returns = false;
  std::uint64_t cache_salt = 0;
  std::string name;
};

// Errors: kInvalidArgument (magic, a field), kVersionMismatch (naming both versions).
Result<CheckedHello> ValidateHello(const Hello& hello);

// The client's check of a Welcome. Its refusal (code and message) comes back as that Error. Errors
// else: kCorrupt (not a Welcome, a field), kVersionMismatch.
Result<ChannelGeometry> ValidateWelcome(const Welcome& welcome);

// What a daemon lets a submission carry, beside the fixed limits of wire_messages.h.
struct SubmissionLimits {
  std::uint64_t arena_bytes = 0;  // the client's request arena
  std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max();  // cells of the pool
};

// Verb and flags known and fit for each other, reserved zero, payload inside the arena and no
// larger than the verb may have, a payload where the verb wants one and none elsewhere, arguments in
// their ranges as far as that needs no state. Errors: kInvalidArgument; kNoSpace (more tokens than
// the pool has cells).
Status ValidateSubmission(const Submission& submission, const SubmissionLimits& limits);

// Verb, code and flags known, output inside the arena and not across its end. Error: kCorrupt.
Status ValidateCompletion(const Completion& completion, std::uint64_t result_arena_bytes);

// The verb's stable name ("copy_range"), for logs and errors; "unknown" for a number that is none.
std::string_view VerbName(std::uint16_t verb);

}  // namespace kvd::wire
