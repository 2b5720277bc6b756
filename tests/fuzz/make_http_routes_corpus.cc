// Writes seeds for http_routes_fuzz: a usual request to each route, and inputs that are drawn at
// random, with up to four requests.
#include <span>
#include <string>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/http_program.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::http_routes_corpus {
namespace {

constexpr std::uint64_t kDrawn = 500;

}  // namespace

int Make(const std::string& folder) {
  int number = 0;
  const auto write = [&](std::span<const std::uint8_t> seed) {
    kvd::test::WriteSeed(folder, "routes_" + std::to_string(number++), std::as_bytes(seed));
  };
  for (const std::vector<std::uint8_t>& usual : test::UsualInputs()) write(usual);
  for (std::uint64_t seed = 1; seed <= kDrawn; ++seed) {
    test::Choices drawn(seed * 0x9e3779b97f4a7c15);
    (void)test::MakeHttpProgram(drawn);
    write(drawn.recorded());
  }
  return 0;
}

}  // namespace kvd::http_routes_corpus
