#include "http/backend/daemon_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace kvd::http {
namespace {

constexpr std::uint64_t kMemory = 16ull << 30;
constexpr ModelFacts kSmall{.context_length = 2048, .cell_bytes = 1024, .weight_bytes = 1 << 20};
// 128 KiB for each token, so 2^15 tokens are a quarter of the memory.
constexpr ModelFacts kLarge{
    .context_length = 1u << 17, .cell_bytes = 128u << 10, .weight_bytes = 8ull << 30};

Settings WithContext(std::uint32_t cells, std::uint32_t slots, bool is_unified) {
  Settings settings;
  settings.context_cells = cells;
  settings.slot_count = slots;
  settings.is_unified = is_unified;
  return settings;
}

bool Has(const DaemonPlan& plan, const std::string& flag, const std::string& value) {
  const auto found = std::ranges::find(plan.arguments, flag);
  return found != plan.arguments.end() && found + 1 != plan.arguments.end() && found[1] == value;
}

TEST(DaemonPlanTest, ASmallPoolHasFourTimesTheContextOfASlot) {
  const DaemonPlan plan = PlanDaemon(WithContext(4096, 4, false), kSmall, kMemory);
  EXPECT_EQ(plan.cells, 4 * 4096u);
  EXPECT_EQ(plan.cells_needed, 4096u);
  EXPECT_TRUE(Has(plan, "--cells", "16384"));
  EXPECT_TRUE(plan.notes.empty());
}

TEST(DaemonPlanTest, ALargePoolHasAQuarterMoreThanTheContextOfAllSlots) {
  const DaemonPlan plan = PlanDaemon(WithContext(1u << 16, 2, false), kLarge, kMemory);
  EXPECT_EQ(plan.cells, (1u << 16) + (1u << 14));
}

TEST(DaemonPlanTest, APoolInBetweenHasAQuarterOfTheMemory) {
  const DaemonPlan plan = PlanDaemon(WithContext(1u << 14, 1, false), kLarge, kMemory);
  EXPECT_EQ(plan.cells, 1u << 15);
}

TEST(DaemonPlanTest, WithoutAContextFlagOneSlotHasTheFullContext) {
  EXPECT_EQ(PlanDaemon(WithContext(0, 4, false), kSmall, kMemory).cells, 4 * 4 * 2048u);
  const DaemonPlan large = PlanDaemon(WithContext(0, 4, false), kLarge, kMemory);
  EXPECT_EQ(large.cells, (1u << 17) + (1u << 15));
  EXPECT_EQ(large.cells_needed, large.cells);
}

TEST(DaemonPlanTest, TheContextOfASlotIsCappedWithAMessage) {
  const DaemonPlan plan = PlanDaemon(WithContext(16384, 2, false), kSmall, kMemory);
  EXPECT_EQ(plan.cells_needed, 2 * 2048u);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_EQ(plan.notes[0],
            "--ctx-size: a slot would have 8192 tokens; it has the 2048 that the model was trained "
            "for");
}

TEST(DaemonPlanTest, TenantsHaveRoomForTwoSlots) {
  Settings settings = WithContext(1u << 17, 1, true);
  settings.tenants_path = "tenants";
  EXPECT_EQ(PlanDaemon(settings, kLarge, kMemory).cells, 2 * (1u << 17));
}

TEST(DaemonPlanTest, TheNameDependsOnWhatTheDaemonServes) {
  const Settings settings = WithContext(4096, 4, false);
  const std::string name = DaemonName(settings);
  EXPECT_EQ(name.size(), std::string("http-").size() + 16);
  EXPECT_EQ(DaemonName(settings), name);
  Settings other = settings;
  other.k_type = "q8_0";
  EXPECT_NE(DaemonName(other), name);
  other = settings;
  other.model_path = "tests/data/other.gguf";
  EXPECT_NE(DaemonName(other), name);
  other = settings;
  other.port = 1;
  other.aliases = {"a"};
  EXPECT_EQ(DaemonName(other), name);
}

TEST(DaemonPlanTest, TheNameDoesNotDependOnSizes) {
  const Settings settings = WithContext(4096, 4, false);
  for (const auto change :
       {+[](Settings& s) { s.context_cells = 8192; }, +[](Settings& s) { s.slot_count = 2; },
        +[](Settings& s) { s.is_unified = true; }, +[](Settings& s) { s.threads = 3; },
        +[](Settings& s) { s.batch_tokens = 64; }, +[](Settings& s) { s.ubatch_tokens = 64; }}) {
    Settings other = settings;
    change(other);
    EXPECT_EQ(DaemonName(other), DaemonName(settings));
    EXPECT_NE(SizedDaemonName(other), SizedDaemonName(settings));
    EXPECT_NE(SizedDaemonName(other), DaemonName(settings));
  }
}

TEST(DaemonPlanTest, FlagsAreComparedWithoutTheFilesOfAGateway) {
  const std::vector<std::string> flags = {"--name", "a", "--store", "/one", "--cells", "64"};
  const auto line = [](const std::vector<std::string>& arguments) {
    std::string text("kvd\0", 4);
    for (const std::string& argument : arguments) text.append(argument).append(1, '\0');
    return text;
  };
  EXPECT_TRUE(HasFlags(line(flags), flags));
  EXPECT_TRUE(HasFlags(line({"--name", "b", "--store", "/two", "--cells", "64"}), flags));
  EXPECT_FALSE(HasFlags(line({"--name", "a", "--store", "/one", "--cells", "96"}), flags));
  EXPECT_FALSE(HasFlags(line({"--name", "a", "--cells", "64", "--deterministic"}), flags));
  EXPECT_FALSE(HasFlags(line({}), flags));
  EXPECT_TRUE(HasFlags("", flags)) << "the command line cannot be read";
}

TEST(DaemonPlanTest, TheNameDependsOnTheDirectoryOfSockets) {
  const char* const present = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = present == nullptr ? "" : present;
  ::setenv("XDG_RUNTIME_DIR", "/tmp/one", 1);
  const std::string one = DaemonName(Settings{});
  ::setenv("XDG_RUNTIME_DIR", "/tmp/two", 1);
  EXPECT_NE(DaemonName(Settings{}), one);
  ::unsetenv("XDG_RUNTIME_DIR");
  if (present != nullptr) ::setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
}

TEST(DaemonPlanTest, NamesAModelByItsRealPath) {
  Settings settings;
  settings.model_path = "models/notebook-1m-q8_0.gguf";
  Settings other;
  other.model_path = "models/../models/./notebook-1m-q8_0.gguf";
  EXPECT_EQ(DaemonName(settings), DaemonName(other));
}

TEST(DaemonPlanTest, PassesTheFlags) {
  Settings settings = WithContext(0, 4, true);
  settings.threads = 3;
  settings.ubatch_tokens = 64;
  settings.v_type = "q8_0";
  settings.keeps_windows = true;
  settings.is_deterministic = true;
  settings.daemon_arguments = {"--log-level", "debug"};
  const DaemonPlan plan = PlanDaemon(settings, kSmall, kMemory);
  EXPECT_TRUE(Has(plan, "--threads", "3"));
  EXPECT_TRUE(Has(plan, "--ubatch-size", "64"));
  EXPECT_TRUE(Has(plan, "--cache-type-v", "q8_0"));
  EXPECT_TRUE(std::ranges::find(plan.arguments, "--swa-full") != plan.arguments.end());
  EXPECT_TRUE(std::ranges::find(plan.arguments, "--deterministic") != plan.arguments.end());
  EXPECT_EQ(plan.arguments.back(), "debug");
}

TEST(DaemonPlanTest, ReadsThePropertiesOfTheModel) {
  const auto facts = ReadModelFacts(
      "name=a\ncontext=2048\ncell_bytes=512\nstate_bytes=0\n"
      "weight_bytes=77\n");
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->context_length, 2048u);
  EXPECT_EQ(facts->cell_bytes, 512u);
  EXPECT_EQ(facts->weight_bytes, 77u);
  EXPECT_FALSE(ReadModelFacts("context=1\n"));
}

TEST(UserDaemonTest, FindsTheModelInTheCommandLineOfADaemon) {
  using namespace std::string_literals;
  EXPECT_EQ(ModelOfCommandLine("kvd\0--model\0a.gguf\0-c\0"s), "a.gguf");
  EXPECT_EQ(ModelOfCommandLine("kvd\0--model=a.gguf\0"s), "a.gguf");
  EXPECT_EQ(ModelOfCommandLine("kvd\0-m\0a.gguf\0-m\0b.gguf\0"s), "b.gguf");
  EXPECT_EQ(ModelOfCommandLine("kvd\0--name\0x\0"s), "");
  EXPECT_EQ(ModelOfCommandLine("kvd\0-m\0"s), "");
}

}  // namespace
}  // namespace kvd::http
