// Validates a submission entry and parses its payload, with any bytes that a hostile client may
// write.
//
// Oracle: the validator and the parser accept exactly the submissions that
// tests/fuzz/submission_oracle.h accepts, an accepted payload is inside the arena, and encoding the
// parsed payload yields the same bytes. Every refusal of a submission must have an error message.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "shm/wire_check.h"
#include "tests/fuzz/parse_payload.h"
#include "tests/fuzz/submission_oracle.h"

namespace {

namespace wire = kvd::wire;

// The size of the arena for the validator; no arena is allocated.
constexpr std::uint64_t kArenaBytes = 64u << 20;
constexpr std::uint64_t kPoolCells = 100;
constexpr std::uint32_t kVocabSize = 1000;

void CheckEntry(const wire::Submission& submission) {
  const kvd::Status status =
      wire::ValidateSubmission(submission, {.arena_bytes = kArenaBytes, .tokens_max = kPoolCells});
  KVD_ASSERT(status.has_value() ==
             kvd::test::IsValidSubmission(submission, kArenaBytes, kPoolCells));
  KVD_ASSERT(status || !status.error().message.empty());
  if (!status) return;
  KVD_ASSERT(submission.payload_bytes <= kArenaBytes);
  KVD_ASSERT(submission.payload_offset <= kArenaBytes - submission.payload_bytes);
  KVD_ASSERT(wire::VerbName(submission.verb) != "unknown");
}

void CheckPayload(wire::PayloadKind kind, std::span<const std::byte> payload) {
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  const bool is_valid = kvd::test::IsValidPayload(kind, exact, kVocabSize);
  const kvd::test::ParsedPayload parsed = kvd::test::ParsePayload(kind, exact, kVocabSize);
  KVD_ASSERT(parsed.status.has_value() == is_valid);
  KVD_ASSERT(parsed.status ? std::ranges::equal(parsed.bytes, exact)
                           : !parsed.status.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  wire::Submission submission{};
  if (byte_count < sizeof submission) return 0;
  std::memcpy(&submission, data, sizeof submission);
  CheckEntry(submission);
  // The parser is called also if the entry is refused, because it must not rely on the entry's
  // validity.
  const wire::VerbRow* const row = wire::FindVerb(submission.verb);
  CheckPayload(row != nullptr ? row->payload.kind : wire::PayloadKind::kNone,
               std::as_bytes(std::span(data + sizeof submission, byte_count - sizeof submission)));
  return 0;
}
