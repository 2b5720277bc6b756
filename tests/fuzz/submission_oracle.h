// What a submission and its payload may be, stated a second time: the rules of the table of verbs
// applied without shm/wire_check.cc, and payloads without the parsers of shm/payload_codec.cc. (The
// table's own numbers are stated a second time in docs/verbs.md.)
//
// submission_fuzz compares the two on every input, so a rule that is applied in one of them alone is
// found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/verb_table.h"

namespace kvd::test {

// Whether the daemon accepts the entry, by itself, with a request arena of that size and a pool of
// that many cells.
bool IsValidSubmission(const wire::Submission& submission, std::uint64_t arena_bytes,
                       std::uint64_t pool_cells);

// Whether the daemon accepts these bytes as a payload of that kind: what its parser checks, not
// the length that the entry's own check refuses.
bool IsValidPayload(wire::PayloadKind kind, std::span<const std::byte> payload,
                    std::uint32_t vocab_size);

}  // namespace kvd::test
