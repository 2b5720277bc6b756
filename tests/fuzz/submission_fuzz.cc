// A submission entry and its payload as a hostile client may write them: the entry's validator,
// then the payload's parser.
//
// Oracle: both accept exactly what tests/fuzz/submission_oracle.h accepts, an accepted payload lies
// inside the arena, and what the parser made of it, encoded again, is the same bytes. A refusal has
// a message.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "shm/check.h"
#include "shm/wire_check.h"
#include "tests/fuzz/parse_payload.h"
#include "tests/fuzz/submission_oracle.h"

namespace {

namespace wire = kvd::wire;

// A number alone: nothing is that large.
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
  // A copy without room behind it: what a parser reads too far is found.
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  const bool is_valid = kvd::test::IsValidPayload(kind, exact, kVocabSize);
  if (kind == wire::PayloadKind::kChat) KVD_ASSERT(wire::CheckChatCount(exact) || !is_valid);
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
  // The parser sees whatever the arena held, also for an entry that is refused: it must not rely on
  // the entry.
  const wire::VerbRow* const row = wire::FindVerb(submission.verb);
  CheckPayload(row != nullptr ? row->payload.kind : wire::PayloadKind::kNone,
               std::as_bytes(std::span(data + sizeof submission, byte_count - sizeof submission)));
  return 0;
}
