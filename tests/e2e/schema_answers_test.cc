// Answers of the bundled model to random schemas at temperature 2, many at a time: a finished
// answer is valid for an independent validator (python3-jsonschema), and a cut one is the beginning
// of a text of the schema's grammar, read by a second reader of grammars.
//
// KVD_TEST_SCALE multiplies the number of schemas (10,000); KVD_TEST_SEED replays a run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/other_programs.h"
#include "tests/support/test_scale.h"
#include "tests/text/schema/gbnf_checker.h"
#include "tests/text/schema/python_lines.h"
#include "text/json.h"
#include "text/schema/schema_grammar.h"

namespace kvd::test {
namespace {

constexpr int kSchemaCount = 10'000;
constexpr std::int32_t kTokensMax = 400;
constexpr std::size_t kAtOnce = 32;

// One schema and its answer.
struct Case {
  Value schema;
  std::string grammar;
  std::string text;
  std::uint32_t finish = 0;
};

// Without the bytes of an unfinished character at the end.
std::string WholeCharacters(std::string text) {
  std::size_t end = text.size();
  while (end > 0 && (static_cast<unsigned char>(text[end - 1]) & 0xc0) == 0x80) --end;
  if (end == 0 || static_cast<unsigned char>(text[end - 1]) < 0x80) return text;
  const auto lead = static_cast<unsigned char>(text[end - 1]);
  const std::size_t wanted = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() - (end - 1) < wanted) text.resize(end - 1);
  return text;
}

class SchemaAnswersTest : public ServedDaemonTest {
 protected:
  SchemaAnswersTest() : ServedDaemonTest({"-c", "65536"}) {}

  // Generates the answers of the cases, all at the same time.
  void GenerateAll(const Client& client, std::vector<Case>& cases, std::uint64_t first_seed) {
    const auto prompt = client.Tokenize("The answer: ", 0);
    ASSERT_TRUE(prompt) << prompt.error().message;
    SamplingParams sampling = DefaultSamplingAt(2.0f);
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    std::vector<std::pair<Sequence, Generation>> running;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      auto sequence = client.NewSequence();
      ASSERT_TRUE(sequence) << sequence.error().message;
      GenerateOptions options{.tokens = *prompt,
                              .predict_max = kTokensMax,
                              .sampling = sampling,
                              .seed = first_seed + i};
      options.grammar = cases[i].grammar;
      auto generation = sequence->Generate(options);
      ASSERT_TRUE(generation) << generation.error().message;
      running.emplace_back(std::move(*sequence), std::move(*generation));
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (;;) {
        const auto piece = running[i].second.Next();
        ASSERT_TRUE(piece) << piece.error().message << "\n" << cases[i].grammar;
        if (!*piece) break;
        cases[i].text += (*piece)->text;
      }
      cases[i].finish = running[i].second.result().finish;
    }
  }
};

TEST_F(SchemaAnswersTest, TextsAreValidOrAPrefixOfAValidText) {
  if (const std::string missing = MissingPythonModule("jsonschema"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const char* const given_seed = std::getenv("KVD_TEST_SEED");
  const std::uint64_t seed = given_seed == nullptr ? 2 : std::strtoull(given_seed, nullptr, 10);
  const auto count = static_cast<std::size_t>(Scaled(kSchemaCount, 64));
  const std::string script = std::string(kPython) + " -B tests/text/schema_cases.py ";
  std::vector<Case> cases;
  std::size_t refused = 0;
  // Schemas are drawn until `count` of them become grammars.
  for (std::uint64_t round = 0; cases.size() < count && round < 100; ++round) {
    ASSERT_TRUE(
        ForEachLine(script + "bounded --seed " + std::to_string(seed + 1000 * round) + " --count " +
                        std::to_string(count - cases.size()),
                    [&](std::string_view line) {
                      const auto parsed = ParseJson(line);
                      ASSERT_TRUE(parsed) << parsed.error().message;
                      Case one{.schema = parsed->dict().Find("schema"), .grammar = {}, .text = {}};
                      auto grammar = SchemaGrammar(one.schema);
                      refused += grammar ? 0 : 1;
                      if (!grammar) return;
                      one.grammar = std::move(*grammar);
                      cases.push_back(std::move(one));
                    }));
  }
  ASSERT_EQ(cases.size(), count);
  EXPECT_LE(refused * 10, (count + refused) * 3) << refused << " were refused";

  const auto client = Client::Connect({.socket_path = socket_path()});
  ASSERT_TRUE(client) << client.error().message;
  const std::string path = testing::TempDir() + "schema_answers_" + std::to_string(::getpid());
  std::FILE* const texts = std::fopen(path.c_str(), "w");
  ASSERT_NE(texts, nullptr);
  std::size_t finished = 0;
  for (std::size_t first = 0; first < cases.size(); first += kAtOnce) {
    const auto last = std::min(first + kAtOnce, cases.size());
    std::vector<Case> some(std::make_move_iterator(cases.begin() + static_cast<long>(first)),
                           std::make_move_iterator(cases.begin() + static_cast<long>(last)));
    GenerateAll(*client, some, 1 + first);
    if (HasFatalFailure()) break;
    for (const Case& one : some) {
      if (one.finish == wire::kFinishEnd) {
        ++finished;
        Dict line;
        line.Set("schema", one.schema);
        line.Set("texts", Value::List({Value::String(one.text)}));
        std::fprintf(texts, "%s\n", WriteJson(Value::Of(std::move(line))).value_or("{}").c_str());
        continue;
      }
      EXPECT_EQ(one.finish, unsigned{wire::kFinishLength}) << one.grammar << "\n" << one.text;
      auto checker = GbnfChecker::Create(one.grammar);
      ASSERT_TRUE(checker) << checker.error().message;
      EXPECT_TRUE(checker->AcceptsPrefix("root", WholeCharacters(one.text))) << one.text;
    }
  }
  std::fclose(texts);
  EXPECT_TRUE(ForEachLine(script + "validate " + path,
                          [](std::string_view line) { ADD_FAILURE() << "not valid: " << line; }));
  ::unlink(path.c_str());
  EXPECT_GE(finished * 10, cases.size() * 8);
  std::printf("%zu schemas: %zu others refused, %zu answers finished, %zu cut\n", count, refused,
              finished, cases.size() - finished);
}

}  // namespace
}  // namespace kvd::test
