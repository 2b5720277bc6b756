// Runs kvd-golden on every golden folder and vocabulary, with every kernel table of this machine:
// in process, through a daemon, and with --deterministic.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "kernels/kernel_table.h"
#include "tests/golden/run_golden.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/support/golden_folders.h"
#include "tests/support/shared_files.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using test::IsScaledDown;
using test::Outcome;
using test::RunGolden;

// Returns whether the model has cells and every head of every layer is a multiple of the 32
// elements of a block of q8_0 and q4_0. kvd refuses these cells for other models; most folders have
// heads of 16 elements (also some layers of gemma4, and gemma3n), the latent rows of deepseek2 and
// kimi-linear have 40.
bool HasWideHeads(const fs::path& folder) {
  constexpr std::uint32_t kBlock = 32;
  const auto file = GgufFile::Open(folder / "model.gguf");
  if (!file) return false;
  const auto config = ReadModelConfig(*file);
  if (!config || !config->has_decoder) return false;
  bool has_cells = false;
  for (std::uint32_t layer = 0; layer < config->layer_count; ++layer) {
    if (!config->caches(layer)) continue;
    has_cells = true;
    if (config->key_dim(layer) % kBlock != 0) return false;
    if (!config->values_in_keys() && config->value_dim(layer) % kBlock != 0) return false;
  }
  return has_cells;
}

enum class Which {
  kAll,
  // All golden folders but t5. The attention scores of the t5 model are not scaled, so the rounding
  // errors of keys grow beyond the tolerance of the models with scaled scores (llama.cpp's f16 and
  // bf16 caches exceed this tolerance, too).
  kRoundedCells,
  kWideHeads,
};

enum class Volume {
  kLeast,  // a folder with attention, one with recurrent layers, too
  kKinds,  // a folder of each kind of memory and layer
  kAll,    // every architecture, and llama with every weight type
};

// Returns the names of the selected folders as arguments for kvd-golden.
std::string Folders(Volume volume, Which which) {
  const bool wide_heads = which == Which::kWideHeads;
  static const std::set<std::string> kKinds = {"qwen2",
                                               "qwen3",
                                               "gemma2",
                                               "gemma3",
                                               "lfm2",
                                               "phi3",
                                               "rwkv6",
                                               "rwkv7",
                                               "qwen35",
                                               "mamba",
                                               "mamba2",
                                               "jamba",
                                               "granitehybrid",
                                               "falcon-h1",
                                               "bert",
                                               "t5",
                                               "qwen3moe",
                                               "gpt-oss",
                                               "qwen3next-legacy",
                                               "nemotron_h_moe-latent",
                                               "mistral3",
                                               "gpt2",
                                               "hunyuan-moe",
                                               "stablelm-parallel",
                                               "falcon-40b",
                                               "cohere2",
                                               "phimoe",
                                               "gemma3n",
                                               "gemma4",
                                               "kimi-linear"};
  const std::string first_llama = wide_heads ? "llama-f16" : "llama";
  std::string folders;
  for (const auto& entry : fs::directory_iterator("../shared/golden")) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || test::IsBeyondThisBuild(name)) continue;
    if (which == Which::kRoundedCells && name == "t5") continue;
    const bool is_llama = name.starts_with("llama");
    const bool is_wanted = volume == Volume::kAll || (is_llama && name == first_llama) ||
                           (volume == Volume::kLeast && name == "jamba") ||
                           (volume == Volume::kKinds && kKinds.contains(name));
    if (!is_wanted || (wide_heads && !HasWideHeads(entry.path()))) continue;
    folders += " " + entry.path().string();
  }
  return folders;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string missing = test::MissingShared("golden"); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    const kernels::KernelChoice choice = kernels::SelectKernels(GetParam());
    if (choice.table == nullptr) GTEST_SKIP() << GetParam() << ": " << choice.problem;
    if (choice.table->name == std::string("amx") && kernels::TilesAreTrapped()) {
      GTEST_SKIP() << "the machine lacks AMX: TrappedTilesGoldenTest runs it";
    }
    ::setenv("KVD_KERNELS", GetParam(), 1);
  }
  void TearDown() override { ::unsetenv("KVD_KERNELS"); }
  // Every kernel table computes every folder in process. The widest table of the machine computes
  // every folder through a daemon, the others one folder of each kind. With other flags each vector
  // table computes one folder of each kind, and the slow scalar table, whose bits the other tables
  // reproduce (SelfCheckTest), two folders. In sanitizer builds the widest table computes every
  // folder in process; with flags, and with the other tables, two folders are computed.
  static void ExpectAllPass(const std::string& flags, Which which = Which::kAll) {
    const bool is_widest = kernels::SelectKernels("").table->name == std::string(GetParam());
    const bool is_scalar = GetParam() == std::string("scalar");
    const bool is_in_process = flags.empty(), is_through_daemon = flags == "--spawn";
    Volume volume = Volume::kKinds;
    if (IsScaledDown()) {
      volume = is_widest && is_in_process ? Volume::kAll : Volume::kLeast;
    } else if (is_in_process || (is_through_daemon && is_widest)) {
      volume = Volume::kAll;
    } else if (is_scalar && !is_through_daemon) {
      volume = Volume::kLeast;
    }
    const Outcome outcome = RunGolden(flags + Folders(volume, which));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
  }
};

TEST_P(GoldenTest, EveryScenarioPassesInProcess) { ExpectAllPass(""); }
TEST_P(GoldenTest, EveryScenarioPassesThroughADaemon) { ExpectAllPass("--spawn"); }
TEST_P(GoldenTest, EveryScenarioPassesWithTheDeterministicForm) {
  ExpectAllPass("--deterministic");
}
TEST_P(GoldenTest, EveryScenarioPassesWithF16Cells) {
  ExpectAllPass("--ctk f16 --ctv f16", Which::kRoundedCells);
  ExpectAllPass("--deterministic --ctk f16 --ctv f16", Which::kRoundedCells);
}
TEST_P(GoldenTest, EveryScenarioPassesWithBf16Cells) {
  ExpectAllPass("--ctk bf16 --ctv bf16", Which::kRoundedCells);
}
TEST_P(GoldenTest, EveryScenarioPassesWithQ8CellsWhereTheHeadsAllowThem) {
  ExpectAllPass("-ctk q8_0 -ctv q8_0", Which::kWideHeads);
  ExpectAllPass("--spawn -ctk q8_0 -ctv f16", Which::kWideHeads);
}

TEST_P(GoldenTest, EveryScenarioPassesWithQ4CellsWhereTheHeadsAllowThem) {
  ExpectAllPass("-ctk q4_0 -ctv q4_0", Which::kWideHeads);
}

INSTANTIATE_TEST_SUITE_P(EveryTable, GoldenTest,
                         ::testing::Values("scalar", "avx2", "avx512", "amx"),
                         [](const auto& tested) { return std::string(tested.param); });

// The amx table on a machine that lacks only its tile instructions. An emulated tile instruction
// takes one to two microseconds, so the test runs in process, with one folder for each kind of
// product: bf16, bf16 with f16 cells, weights that are decoded to bf16, and, with --deterministic,
// integers of whole blocks, of blocks of two halves, and with minimums of halves.
TEST(TrappedTilesGoldenTest, EveryKindOfProductPasses) {
  if (const std::string missing = test::MissingShared("golden"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
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
    expect_pass("", {"f16", "q8_0", "q4_K", "iq3_s"});
    expect_pass("--deterministic", {"q4_K", "q6_K", "q2_K"});
  }
  ::unsetenv("KVD_KERNELS");
}

TEST(GoldenToolTest, EveryVocabularyPasses) {
  if (const std::string missing = test::MissingShared("vocab"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const Outcome outcome = RunGolden("../shared/vocab");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}

TEST(GoldenToolTest, EveryTemplatePasses) {
  if (const std::string missing = test::MissingShared("templates"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const Outcome outcome = RunGolden("../shared/templates");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
  std::size_t folders = 0;
  for (const auto& entry : fs::directory_iterator("../shared/templates")) {
    if (!entry.is_directory()) continue;
    ++folders;
    EXPECT_NE(outcome.text.find(entry.path().string() + ": "), std::string::npos)
        << entry.path() << " was not run";
  }
  EXPECT_GT(folders, 0u);
}

TEST(GoldenToolTest, AWrongTemplateIsReportedWithItsFirstDifference) {
  const fs::path folder =
      fs::temp_directory_path() / ("kvd-template-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  std::ofstream(folder / "template.jinja") << "{{ raise_exception('no') if x else 'abc' }}";
  std::ofstream(folder / "cases.json")
      << R"([{"name": "same", "variables": {}, "text": "abc"},)"
      << R"( {"name": "other", "variables": {}, "text": "abd"},)"
      << R"( {"name": "raised", "variables": {"x": 1}, "error": "no"},)"
      << R"( {"name": "raises", "variables": {"x": 1}, "error": "yes"}])";
  const Outcome outcome = RunGolden(folder);
  fs::remove_all(folder);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find("other: byte 2: got \"abc\", expected \"abd\""), std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("raises: error 'no', expected 'yes'"), std::string::npos);
  EXPECT_NE(outcome.text.find("2 passed, 2 failed"), std::string::npos);
}

TEST(GoldenToolTest, AFolderWithoutAnythingOrMissingFails) {
  EXPECT_EQ(RunGolden("docs").status, 1);
  EXPECT_EQ(RunGolden("no/such/folder").status, 1);
}

TEST(GoldenToolTest, WrongUsageExitsWithTwo) {
  EXPECT_EQ(RunGolden("").status, 2);
  EXPECT_EQ(RunGolden("--no-such-flag docs").status, 2);
}

}  // namespace
}  // namespace kvd
