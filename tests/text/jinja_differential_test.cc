// Renders random programs (jinja_programs.py) and requires Jinja2's text, or a failure where Jinja2
// fails: 50,000 programs that every machine makes, and 8,000 mutations of the published templates
// in ../shared/templates. KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the numbers.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/other_programs.h"
#include "tests/support/shared_files.h"
#include "tests/support/test_scale.h"
#include "text/chat/named_formats.h"
#include "text/jinja/template.h"
#include "text/json.h"

namespace kvd::jinja {
namespace {

constexpr int kProgramCount = 50'000;
constexpr int kPublishedMutationCount = 8'000;
constexpr std::size_t kShownMax = 10;
constexpr std::int64_t kOccurrencesMin = 100;
constexpr const char* kVersion = "3.1.2";  // of Debian's python3-jinja2

struct Programs {
  std::int64_t count = 0;
  std::int64_t difference_count = 0;
  std::string shown;    // the first differences
  std::string problem;  // of the script, or of its lines
  Value summary;        // the script's last line
};

std::string ShownAs(const Result<std::string>& rendered) {
  return rendered ? "text  " + *rendered : "error " + rendered.error().message;
}

// The time that jinja_environment.py has: 2026-11-22 12:34:56.
RenderOptions Options() {
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mon = 10;
  now.tm_mday = 22;
  now.tm_hour = 12;
  now.tm_min = 34;
  now.tm_sec = 56;
  ::timegm(&now);  // the day of the week and of the year
  RenderOptions options;
  options.now = now;
  return options;
}

// Returns what differs, or an empty string. Where the template called raise_exception, the message
// has to be the same; errors of the language have messages of their own.
std::string Difference(const Result<Template>& parsed, const Dict& program) {
  static const RenderOptions options = Options();
  Result<std::string> rendered = std::unexpected(Error{});
  if (parsed) {
    rendered = parsed->Render(program.Find("variables"), options);
  } else {
    rendered = std::unexpected(parsed.error());
  }
  const Value& text = program.Find("text");
  bool same = false;
  if (!text.is_missing()) {
    same = rendered && *rendered == text.view();
  } else {
    const bool raised = program.Find("raised").truth();
    same = !rendered && (!raised || rendered.error().message == program.Find("error").view());
  }
  if (same) return {};
  const std::string expected = !text.is_missing()
                                   ? "text  " + std::string(text.view())
                                   : "error " + std::string(program.Find("error").view());
  return "variables: " + WriteJson(program.Find("variables")).value_or("?") +
         "\nJinja2: " + expected + "\nhere:   " + ShownAs(rendered) + "\n";
}

// Reads the lines of the script one by one: there can be several hundred megabytes.
class ProgramReader {
 public:
  explicit ProgramReader(Programs& programs) : programs_(programs) {}

  void Read(std::FILE* pipe) {
    char* line = nullptr;
    std::size_t capacity = 0;
    for (ssize_t got = 0; (got = ::getline(&line, &capacity, pipe)) > 0;) {
      Take({line, static_cast<std::size_t>(got)});
    }
    std::free(line);
  }

 private:
  void Take(std::string_view line) {
    const Result<Value> parsed = ParseJson(line);
    if (!parsed || !parsed->is_dict()) {
      programs_.problem = "a line is not JSON: " + std::string(line.substr(0, 200));
      return;
    }
    const Dict& program = parsed->dict();
    if (program.Contains("counts")) {
      programs_.summary = *parsed;
      return;
    }
    if (const Value& source = program.Find("template"); !source.is_missing()) {
      source_ = source.view();
      template_ = Template::Parse(source_);
    }
    ++programs_.count;
    const std::string difference = Difference(template_, program);
    if (difference.empty()) return;
    if (static_cast<std::size_t>(programs_.difference_count++) >= kShownMax) return;
    programs_.shown +=
        "--- program " + std::to_string(programs_.count) + "\n" + source_ + "\n" + difference;
  }

  Programs& programs_;
  std::string source_;
  Result<Template> template_ = Fail(Code::kInvalidArgument, "no template");
};

// Runs jinja_programs.py. `templates`: its arguments that say which templates are mutated.
Programs RunPrograms(int wanted, const std::string& templates) {
  Programs programs;
  const int count = test::Scaled(wanted);
  const unsigned jobs = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  const std::string command = std::string(test::kPython) +
                              " -B tests/text/jinja_programs.py --seed " +
                              std::to_string(test::Seed()) + " --count " + std::to_string(count) +
                              " --jobs " + std::to_string(jobs) + " " + templates;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    programs.problem = "popen failed: " + command;
    return programs;
  }
  ProgramReader(programs).Read(pipe);
  const int status = ::pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) programs.problem = "failed: " + command;
  if (programs.problem.empty() && programs.count != count)
    programs.problem = "too few programs: " + command;
  return programs;
}

// The chat formats that have a name, as a file for jinja_programs.py.
Programs RunOwnPrograms() {
  std::vector<Value> formats;
  for (const std::string_view name : NamedFormats()) {
    formats.push_back(Value::String(NamedFormatText(name).value()));
  }
  const std::string path = testing::TempDir() + "named_formats_" + std::to_string(::getpid());
  std::ofstream(path) << WriteJson(Value::List(std::move(formats))).value();
  Programs programs = RunPrograms(kProgramCount, "--formats " + path);
  ::unlink(path.c_str());
  return programs;
}

std::int64_t Summary(const Programs& programs, std::string_view name) {
  return programs.summary.dict().Find(name).integer();
}

void ExpectNoDifference(const Programs& programs) {
  EXPECT_EQ(programs.difference_count, 0)
      << "of " << programs.count << " programs; the first ones:\n"
      << programs.shown;
}

class JinjaDifferentialTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    missing_ = test::MissingPythonModule("jinja2", kVersion);
    if (missing_.empty()) programs_ = RunOwnPrograms();
  }
  static void TearDownTestSuite() { programs_ = {}; }

  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << missing_;
    ASSERT_EQ(programs_.problem, "");
  }

  static Programs programs_;
  static std::string missing_;
};

Programs JinjaDifferentialTest::programs_;
std::string JinjaDifferentialTest::missing_;

TEST_F(JinjaDifferentialTest, EveryProgramRendersAsInJinja2OrFailsAsThere) {
  ExpectNoDifference(programs_);
}

TEST_F(JinjaDifferentialTest, ThreeFifthsOfTheProgramsAndOfTheMutationsRender) {
  EXPECT_GE(Summary(programs_, "rendered") * 5, programs_.count * 3);
  EXPECT_GE(Summary(programs_, "mutated_rendered") * 5, Summary(programs_, "mutated") * 3);
  // Groups of programs are whole, so a third is exact only in the long run.
  if (!test::IsScaledDown()) {
    EXPECT_GE(Summary(programs_, "mutated") * 100, programs_.count * 33);
  }
}

TEST_F(JinjaDifferentialTest, EveryConstructOccursInAHundredProgramsThatRender) {
  // A part of the programs has a part of the constructs; an absent name is a bug at each scale.
  const std::int64_t occurrences_min = test::IsScaledDown() ? 0 : kOccurrencesMin;
  const Value& counts = programs_.summary.dict().Find("counts");
  ASSERT_TRUE(counts.is_dict());
  EXPECT_GT(counts.dict().size(), 170u);
  for (const auto& [name, count] : counts.dict().items())
    EXPECT_GE(count.integer(), occurrences_min) << name.view();
}

TEST(JinjaPublishedTemplatesTest, EveryMutationRendersAsInJinja2OrFailsAsThere) {
  std::string missing = test::MissingShared("templates");
  if (missing.empty()) missing = test::MissingPythonModule("jinja2", kVersion);
  if (!missing.empty()) GTEST_SKIP() << missing;
  const Programs programs = RunPrograms(kPublishedMutationCount, "--templates ../shared/templates");
  ASSERT_EQ(programs.problem, "");
  ExpectNoDifference(programs);
  EXPECT_GE(Summary(programs, "mutated"), programs.count);
  EXPECT_GE(Summary(programs, "mutated_rendered") * 5, programs.count * 3);
}

}  // namespace
}  // namespace kvd::jinja
