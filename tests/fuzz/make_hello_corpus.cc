// Writes seeds for hello_fuzz, which are valid messages.
#include <cstring>

#include "shm/wire_check.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::hello_corpus {
int Make(const std::string& folder) {
  kvd::wire::Hello hello{};
  hello.magic = kvd::wire::kHelloMagic;
  hello.version = kvd::wire::kProtocolVersion;
  kvd::test::WriteSeed(folder, "hello_defaults", std::as_bytes(std::span(&hello, 1)));
  hello.submission_entries = 64;
  hello.completion_entries = 256;
  hello.request_arena_bytes = 1 << 20;
  hello.result_arena_bytes = 1 << 22;
  std::memcpy(hello.name, "client", 6);
  if (!kvd::wire::ValidateHello(hello)) return 1;
  kvd::test::WriteSeed(folder, "hello_sizes", std::as_bytes(std::span(&hello, 1)));
  kvd::wire::Welcome welcome{};
  welcome.magic = kvd::wire::kWelcomeMagic;
  welcome.version = kvd::wire::kProtocolVersion;
  welcome.descriptor_count = 2;
  welcome.session = 1;
  welcome.submission_entries = 256;
  welcome.completion_entries = 512;
  welcome.request_segment_bytes = 4096 * 5 + (1 << 20);
  welcome.result_segment_bytes = 4096 * 9 + (4 << 20);
  welcome.vocab_size = 1000;
  // A welcome that the client refuses is not a useful seed.
  if (!kvd::wire::ValidateWelcome(welcome)) return 1;
  kvd::test::WriteSeed(folder, "welcome", std::as_bytes(std::span(&welcome, 1)));
  welcome.code = static_cast<std::uint8_t>(kvd::Code::kNoSpace);
  std::memset(welcome.message, 'x', sizeof welcome.message - 1);
  kvd::test::WriteSeed(folder, "refusal", std::as_bytes(std::span(&welcome, 1)));
  return 0;
}

}  // namespace kvd::hello_corpus
