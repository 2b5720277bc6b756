// Every golden folder and vocabulary, with kvd-golden, for every kernel table of this machine: in
// process, through a daemon, and (scenarios are short) with --deterministic.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/support/golden_folders.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string text;
};

Outcome RunGolden(const std::string& arguments, const std::string& tool = "kvd-golden") {
  const char* folder = std::getenv("KVD_BIN");
  const std::string command = std::string(folder == nullptr ? "build/release/bin" : folder) + "/" +
                              tool + " " + arguments + " 2>&1";
  Outcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), got);
  outcome.status = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

// KVD_TEST_SCALE below 1: a sanitizer build.
bool IsScaledDown() {
  const char* scale = std::getenv("KVD_TEST_SCALE");
  return scale != nullptr && std::atof(scale) < 1.0;
}

// A folder whose heads are a multiple of what q8_0 packs together.
bool HasWideHeads(const std::string& name) {
  return (name.starts_with("llama-") && name != "llama-plain") || name == "qwen3" ||
         name == "qwen35" || name.starts_with("gemma");
}

enum class Which {
  kAll,
  // All but t5: its scores are not scaled, so what rounding does to keys grows past the tolerance that
  // the models with scaled ones have (llama.cpp's own f16 and bf16 caches are past it there, too).
  kRoundedCells,
  kWideHeads,
};

enum class Volume {
  kLeast,  // a folder with attention, one with recurrent layers, too
  kArchitectures,
  kAll,
};

// The folders as arguments.
std::string Folders(Volume volume, Which which) {
  const bool wide_heads = which == Which::kWideHeads;
  static const std::set<std::string> kOthers = {
      "qwen2",  "qwen3", "gemma2", "gemma3", "lfm2",          "phi3",      "rwkv6", "rwkv7",
      "qwen35", "mamba", "mamba2", "jamba",  "granitehybrid", "falcon-h1", "bert",  "t5"};
  const std::string first_llama = wide_heads ? "llama-f16" : "llama";
  std::string folders;
  for (const auto& entry : fs::directory_iterator("../shared/golden")) {
    const std::string name = entry.path().filename();
    if (test::IsBeyondThisBuild(name)) continue;
    if (wide_heads && !HasWideHeads(name)) continue;
    if (which == Which::kRoundedCells && name == "t5") continue;
    const bool is_wanted = volume == Volume::kLeast ? name == "jamba" : kOthers.contains(name);
    const bool is_llama = volume == Volume::kAll ? name.starts_with("llama") : name == first_llama;
    if (is_wanted || is_llama) folders += " " + entry.path().string();
  }
  return folders;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists("../shared/golden")) GTEST_SKIP() << "../shared/golden is not here";
    const kernels::KernelChoice choice = kernels::SelectKernels(GetParam());
    if (choice.table == nullptr) GTEST_SKIP() << GetParam() << ": " << choice.problem;
    if (choice.table->name == std::string("amx") && kernels::TilesAreTrapped()) {
      GTEST_SKIP() << "the machine lacks AMX: TrappedTilesGoldenTest runs it";
    }
    ::setenv("KVD_KERNELS", GetParam(), 1);
  }
  void TearDown() override { ::unsetenv("KVD_KERNELS"); }
  // Every table sees every folder in process and through a daemon; the scalar one, which is slow, one
  // of each architecture with other flags. Under the sanitizers only the widest table sees every
  // folder, in process, and the others leave the flags to it but for two folders.
  static void ExpectAllPass(const std::string& flags, bool every_weight_type,
                            Which which = Which::kAll) {
    Volume volume = Volume::kAll;
    if (IsScaledDown()) {
      const bool is_widest = kernels::SelectKernels("").table->name == std::string(GetParam());
      const bool is_plain = flags.empty();
      volume = is_widest && is_plain   ? Volume::kAll
               : is_widest || is_plain ? Volume::kArchitectures
                                       : Volume::kLeast;
    } else if (std::string(GetParam()) == "scalar" && !every_weight_type) {
      volume = Volume::kArchitectures;
    }
    const Outcome outcome = RunGolden(flags + Folders(volume, which));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
  }
};

TEST_P(GoldenTest, EveryScenarioPassesInProcess) { ExpectAllPass("", true); }
TEST_P(GoldenTest, EveryScenarioPassesThroughADaemon) { ExpectAllPass("--spawn", true); }
TEST_P(GoldenTest, EveryScenarioPassesWithTheDeterministicForm) {
  ExpectAllPass("--deterministic", false);
}
TEST_P(GoldenTest, EveryScenarioPassesWithF16Cells) {
  ExpectAllPass("--ctk f16 --ctv f16", false, Which::kRoundedCells);
  ExpectAllPass("--deterministic --ctk f16 --ctv f16", false, Which::kRoundedCells);
}
TEST_P(GoldenTest, EveryScenarioPassesWithBf16Cells) {
  ExpectAllPass("--ctk bf16 --ctv bf16", false, Which::kRoundedCells);
}
TEST_P(GoldenTest, EveryScenarioPassesWithQ8CellsWhereTheHeadsAllowThem) {
  ExpectAllPass("-ctk q8_0 -ctv q8_0", false, Which::kWideHeads);
  ExpectAllPass("--spawn -ctk q8_0 -ctv f16", false, Which::kWideHeads);
}

INSTANTIATE_TEST_SUITE_P(EveryTable, GoldenTest,
                         ::testing::Values("scalar", "avx2", "avx512", "amx"),
                         [](const auto& tested) { return std::string(tested.param); });

// The amx table where the machine lacks its tile instructions alone. Each costs a microsecond or two
// there, so this is in process and of one folder for each kind of product: bf16, with cells of f16 too,
// whole blocks, and blocks of two halves.
TEST(TrappedTilesGoldenTest, EveryKindOfProductPasses) {
  if (!fs::exists("../shared/golden")) GTEST_SKIP() << "../shared/golden is not here";
  const kernels::KernelChoice amx = kernels::SelectOrTrap("amx");
  if (amx.table == nullptr) GTEST_SKIP() << "amx: " << amx.problem;
  if (!kernels::TilesAreTrapped()) GTEST_SKIP() << "GoldenTest runs every folder";
  const auto expect_pass = [](std::string arguments, const std::vector<std::string>& kinds) {
    for (const std::string& kind : kinds) arguments += " ../shared/golden/llama-" + kind;
    const Outcome outcome = RunGolden(arguments, "kvd-golden-trapped");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
  };
  ::setenv("KVD_KERNELS", "amx", 1);
  expect_pass("--ctk f16 --ctv f16", {"f16"});
  if (IsScaledDown()) {
    expect_pass("", {"q8_0"});
  } else {
    expect_pass("", {"f16", "q4_K", "q6_K"});
  }
  ::unsetenv("KVD_KERNELS");
}

TEST(GoldenToolTest, EveryVocabularyPasses) {
  if (!fs::exists("../shared/vocab")) GTEST_SKIP() << "../shared/vocab is not here";
  const Outcome outcome = RunGolden("../shared/vocab");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}

TEST(GoldenToolTest, AFolderWithoutAnythingOrMissingFails) {
  EXPECT_EQ(RunGolden("docs").status, 1);
  EXPECT_EQ(RunGolden("no/such/folder").status, 1);
}

TEST(GoldenToolTest, WrongUsageIsTwo) {
  EXPECT_EQ(RunGolden("").status, 2);
  EXPECT_EQ(RunGolden("--no-such-flag docs").status, 2);
}

}  // namespace
}  // namespace kvd
