// Converts any bytes as a JSON Schema into a grammar.
//
// Oracle, in addition to the sanitizers: an error has a message and one of two codes; GbnfChecker
// reads the grammar; random texts of the grammar are in its language and are JSON; a second
// conversion yields the same grammar. Seeds: make_corpus schema FOLDER.
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/text/schema/gbnf_checker.h"
#include "text/json.h"
#include "text/schema/schema_grammar.h"

namespace {

using namespace kvd;

constexpr std::size_t kTextLength = 30;
constexpr std::size_t kMatchedBytesMax = 200;
constexpr std::size_t kReadBytesMax = 1u << 16;

SchemaGrammarOptions SmallLimits() {
  SchemaGrammarOptions options;
  options.depth_max = 16;
  options.rules_max = 2'000;
  options.grammar_bytes_max = 1u << 18;
  return options;
}

void CheckGrammar(const std::string& grammar) {
  if (grammar.size() > kReadBytesMax) return;
  auto checker = test::GbnfChecker::Create(grammar);
  KVD_ASSERT(checker.has_value());
  std::mt19937_64 random(grammar.size());
  for (int i = 0; i < 2; ++i) {
    const auto text = checker->RandomText("root", random, kTextLength);
    KVD_ASSERT(text.has_value());
    if (text->size() > kMatchedBytesMax) continue;
    KVD_ASSERT(checker->Accepts("root", *text));
    KVD_ASSERT(ParseJson(*text).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<char> copy(data, data + byte_count);
  const std::string_view input(copy.data(), copy.size());
  const auto grammar = SchemaGrammar(input, SmallLimits());
  if (!grammar) {
    KVD_ASSERT(!grammar.error().message.empty());
    KVD_ASSERT(grammar.error().code == Code::kInvalidArgument ||
               grammar.error().code == Code::kUnsupported ||
               grammar.error().code == Code::kTooLarge);
    return 0;
  }
  KVD_ASSERT(SchemaGrammar(input, SmallLimits()).value() == *grammar);
  CheckGrammar(*grammar);
  return 0;
}
