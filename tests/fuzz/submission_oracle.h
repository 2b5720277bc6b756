// What a submission and its payload may be, stated a second time: read from the comments of
// shm/wire_messages.h, without the table of shm/wire_check.cc and the parsers of
// shm/payload_codec.cc.
//
// submission_fuzz compares the two on every input, so a limit that is changed in one of them alone
// is found. Each function is a switch over the verbs without a default: a verb that is added does
// not compile here before it has its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/wire_messages.h"

namespace kvd::test {

// Whether the daemon accepts the entry, by itself, with a request arena of that size and a pool of
// that many cells.
bool IsValidSubmission(const wire::Submission& submission, std::uint64_t arena_bytes,
                       std::uint64_t pool_cells);

// Whether the daemon accepts these bytes as the payload of the verb: what its parser checks, not
// the length that the entry's own check refuses.
bool IsValidPayload(wire::Verb verb, std::span<const std::byte> payload, std::uint32_t vocab_size);

}  // namespace kvd::test
