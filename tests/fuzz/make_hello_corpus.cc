// make_hello_corpus FOLDER: valid messages for hello_fuzz to start from.
#include <cstring>

#include "shm/wire_messages.h"
#include "tests/fuzz/make_wire_corpus.h"

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  kvd::wire::Hello hello{};
  hello.magic = kvd::wire::kHelloMagic;
  hello.version = kvd::wire::kProtocolVersion;
  kvd::test::WriteSeed(arguments[1], "hello_defaults", std::as_bytes(std::span(&hello, 1)));
  hello.submission_entries = 64;
  hello.completion_entries = 256;
  hello.request_arena_bytes = 1 << 20;
  hello.result_arena_bytes = 1 << 22;
  std::memcpy(hello.name, "client", 6);
  kvd::test::WriteSeed(arguments[1], "hello_sizes", std::as_bytes(std::span(&hello, 1)));
  kvd::wire::Welcome welcome{};
  welcome.magic = kvd::wire::kWelcomeMagic;
  welcome.version = kvd::wire::kProtocolVersion;
  welcome.descriptor_count = 2;
  welcome.session = 1;
  welcome.submission_entries = 256;
  welcome.completion_entries = 512;
  kvd::test::WriteSeed(arguments[1], "welcome", std::as_bytes(std::span(&welcome, 1)));
}
