// A submission entry and its payload as a hostile client may write them: the entry's validator,
// then the payload's parser.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "shm/payload_codec.h"
#include "shm/piece_codec.h"
#include "shm/wire_check.h"

namespace {

constexpr std::uint64_t kArenaBytes = 1 << 16;
constexpr std::uint32_t kVocabSize = 1000;

void Parse(kvd::wire::Verb verb, std::span<const std::byte> payload) {
  switch (verb) {
    case kvd::wire::Verb::kGenerate: {
      const auto generate = kvd::wire::ParseGenerate(payload, kVocabSize);
      if (generate && generate->tokens.empty()) std::abort();
      break;
    }
    case kvd::wire::Verb::kDecode:
    case kvd::wire::Verb::kDetokenize: (void)kvd::wire::ParseTokens(payload, kVocabSize); break;
    case kvd::wire::Verb::kChat: (void)kvd::wire::ParseChat(payload); break;
    case kvd::wire::Verb::kPublish:
    case kvd::wire::Verb::kUnpublish:
    case kvd::wire::Verb::kAttach: (void)kvd::wire::ParseName(payload); break;
    default: (void)kvd::wire::ParseText(payload); break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  kvd::wire::Submission submission{};
  if (byte_count < sizeof submission) return 0;
  std::memcpy(&submission, data, sizeof submission);
  const auto payload =
      std::as_bytes(std::span(data + sizeof submission, byte_count - sizeof submission));
  if (kvd::wire::ValidateSubmission(submission, {.arena_bytes = kArenaBytes}) &&
      submission.payload_bytes > kArenaBytes - submission.payload_offset) {
    std::abort();
  }
  // The parser sees whatever the arena held, also for an entry that is refused: it must not rely on
  // the entry.
  Parse(static_cast<kvd::wire::Verb>(submission.verb), payload);
  return 0;
}
