// Converts random schemas (schema_cases.py) and compares the grammars with an independent
// validator, Debian's python3-jsonschema: every random text of a grammar satisfies the schema, no
// text that the validator rejects is in the grammar's language, and plain texts that it accepts
// are. KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the number of schemas (10,000).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/other_programs.h"
#include "tests/support/test_scale.h"
#include "tests/text/schema/gbnf_checker.h"
#include "tests/text/schema/python_lines.h"
#include "text/json.h"
#include "text/schema/schema_grammar.h"

namespace kvd::test {
namespace {

constexpr int kSchemaCount = 10'000;
constexpr int kTextsPerSchema = 3;
constexpr std::size_t kTextLength = 60;
constexpr std::size_t kShownMax = 8;

struct Outcome {
  int schema_count = 0;
  int converted_count = 0;
  int text_count = 0;
  int accepted_count = 0;  // plain texts that the validator accepts
  std::map<std::string, int> refusals;
  std::vector<std::string> loose;   // texts that the grammar should not accept
  std::vector<std::string> strict;  // texts that the grammar should accept
  std::vector<std::string> broken;  // grammars that cannot be read
  std::string problem;
};

class Comparison {
 public:
  explicit Comparison(std::FILE* texts) : texts_(texts) {}

  void Take(std::string_view line) {
    const auto parsed = ParseJson(line);
    if (!parsed) {
      outcome_.problem = "a line is not JSON: " + std::string(line.substr(0, 200));
      return;
    }
    ++outcome_.schema_count;
    const Value& schema = parsed->dict().Find("schema");
    const auto grammar = SchemaGrammar(schema);
    if (!grammar) {
      ++outcome_.refusals[KindOf(grammar.error().message)];
      return;
    }
    ++outcome_.converted_count;
    auto checker = GbnfChecker::Create(*grammar);
    if (!checker) {
      outcome_.broken.push_back(Shown(schema) + "\n" + checker.error().message);
      return;
    }
    for (const Value& text : parsed->dict().Find("rejected").items())
      if (checker->Accepts("root", text.view()))
        outcome_.loose.push_back(Shown(schema) + "\n" + std::string(text.view()));
    for (const Value& text : parsed->dict().Find("accepted").items()) {
      ++outcome_.accepted_count;
      if (!checker->Accepts("root", text.view()))
        outcome_.strict.push_back(Shown(schema) + "\n" + std::string(text.view()));
    }
    WriteTexts(schema, *checker);
  }

  Outcome& outcome() { return outcome_; }

 private:
  static std::string Shown(const Value& value) { return WriteJson(value).value_or("?"); }

  // The message without the pointer.
  static std::string KindOf(const std::string& message) {
    const std::size_t colon = message.find(": ");
    const std::string kind = message.substr(colon == std::string::npos ? 0 : colon + 2);
    const std::size_t pointer = kind.find(" #");
    return kind.substr(0, pointer);
  }

  void WriteTexts(const Value& schema, GbnfChecker& checker) {
    Dict line;
    std::vector<Value> texts;
    for (int i = 0; i < kTextsPerSchema; ++i) {
      const auto text = checker.RandomText("root", random_, kTextLength);
      if (!text) {
        outcome_.broken.push_back(Shown(schema) + "\nno finite text");
        return;
      }
      if (!checker.Accepts("root", *text))
        outcome_.broken.push_back(Shown(schema) + "\nits own text: " + *text);
      texts.push_back(Value::String(*text));
      ++outcome_.text_count;
    }
    line.Set("schema", schema);
    line.Set("texts", Value::List(std::move(texts)));
    std::fprintf(texts_, "%s\n", WriteJson(Value::Of(std::move(line))).value_or("{}").c_str());
  }

  std::FILE* texts_;
  std::mt19937_64 random_{20260822};
  Outcome outcome_;
};

Outcome Compare() {
  const char* const seed = std::getenv("KVD_TEST_SEED");
  const int count = Scaled(kSchemaCount, 100);
  const std::string script = std::string(kPython) + " -B tests/text/schema_cases.py ";
  const std::string path = testing::TempDir() + "schema_texts_" + std::to_string(::getpid());
  std::FILE* const texts = std::fopen(path.c_str(), "w");
  Comparison comparison(texts);
  const std::string generate = script + "generate --seed " + (seed == nullptr ? "1" : seed) +
                               " --count " + std::to_string(count);
  Outcome& outcome = comparison.outcome();
  if (texts == nullptr) {
    outcome.problem = "cannot write " + path;
    return outcome;
  }
  if (!ForEachLine(generate, [&](std::string_view line) { comparison.Take(line); }))
    outcome.problem = "failed: " + generate;
  std::fclose(texts);
  const std::string validate = script + "validate " + path;
  const auto take = [&](std::string_view line) { outcome.loose.emplace_back(line); };
  if (!ForEachLine(validate, take)) outcome.problem = "failed: " + validate;
  ::unlink(path.c_str());
  if (outcome.problem.empty() && outcome.schema_count != count) outcome.problem = "too few schemas";
  return outcome;
}

std::string First(const std::vector<std::string>& cases) {
  std::string shown;
  for (std::size_t i = 0; i < std::min(kShownMax, cases.size()); ++i) shown += cases[i] + "\n\n";
  return shown;
}

TEST(SchemaRandomTest, GrammarsAgreeWithAnIndependentValidator) {
  if (const std::string missing = MissingPythonModule("jsonschema"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const Outcome outcome = Compare();
  ASSERT_EQ(outcome.problem, "");
  std::string refusals;
  for (const auto& [kind, count] : outcome.refusals)
    refusals += std::to_string(count) + " " + kind + "\n";
  RecordProperty("texts", outcome.text_count);
  EXPECT_TRUE(outcome.broken.empty()) << outcome.broken.size() << "\n" << First(outcome.broken);
  EXPECT_TRUE(outcome.loose.empty()) << outcome.loose.size() << "\n" << First(outcome.loose);
  EXPECT_TRUE(outcome.strict.empty())
      << outcome.strict.size() << " of " << outcome.accepted_count << "\n"
      << First(outcome.strict);
  EXPECT_GE(outcome.converted_count * 10, outcome.schema_count * 7) << refusals;
  EXPECT_GE(outcome.text_count, outcome.schema_count * 2);
}

}  // namespace
}  // namespace kvd::test
