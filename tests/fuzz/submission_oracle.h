// A second implementation of the checks of a submission and its payload. The oracle applies the
// rules of the table of verbs without shm/wire_check.cc, and checks payloads without the parsers of
// shm/payload_codec.cc. (docs/verbs.md states the numbers of the table a second time.)
//
// submission_fuzz compares both implementations on every input and so finds a rule that only one of
// them applies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/verb_table.h"

namespace kvd::test {

// Returns whether the daemon accepts the entry, without regard to the payload's content, with a
// request arena of `arena_bytes` bytes and a pool of `pool_cells` cells.
bool IsValidSubmission(const wire::Submission& submission, std::uint64_t arena_bytes,
                       std::uint64_t pool_cells);

// Returns whether the daemon's parser accepts the bytes of `payload` as a payload of the kind. The
// entry's check may still refuse the length of the payload.
bool IsValidPayload(wire::PayloadKind kind, std::span<const std::byte> payload,
                    std::uint32_t vocab_size);

}  // namespace kvd::test
