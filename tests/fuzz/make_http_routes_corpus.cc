// Writes seeds for http_routes_fuzz: a usual request to each route, and inputs that are drawn at
// random, with up to four requests.
#include <span>
#include <string>

#include "base/check.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/http_program.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::http_routes_corpus {
namespace {

constexpr std::uint64_t kDrawn = 500;

// The program of these choices, if its only step is for this route.
bool IsFor(const std::vector<std::uint8_t>& bytes, const test::RouteRow& row) {
  test::Choices choices(bytes);
  const test::HttpProgram program = test::MakeHttpProgram(choices);
  return program.steps.size() == 1 && program.steps.front().route == &row;
}

// All choices are the usual ones, but for that of the route.
std::vector<std::uint8_t> UsualInput(const test::RouteRow& row) {
  test::Choices usual(std::span<const std::uint8_t>{});
  (void)test::MakeHttpProgram(usual);
  std::vector<std::uint8_t> bytes(usual.at());
  for (std::uint8_t& byte : bytes) {
    for (int pick = 0; pick < 256; ++pick) {
      byte = static_cast<std::uint8_t>(pick);
      if (IsFor(bytes, row)) return bytes;
    }
    byte = 0;
  }
  KVD_ASSERT(false);
  return bytes;
}

}  // namespace

int Make(const std::string& folder) {
  int number = 0;
  const auto write = [&](std::span<const std::uint8_t> seed) {
    kvd::test::WriteSeed(folder, "routes_" + std::to_string(number++), std::as_bytes(seed));
  };
  for (const test::RouteRow& row : test::RouteRows()) write(UsualInput(row));
  for (std::uint64_t seed = 1; seed <= kDrawn; ++seed) {
    test::Choices drawn(seed * 0x9e3779b97f4a7c15);
    (void)test::MakeHttpProgram(drawn);
    write(drawn.recorded());
  }
  return 0;
}

}  // namespace kvd::http_routes_corpus
