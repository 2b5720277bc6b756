// Tests the golden folders of tests/data: the engine computes the stored rows with every kernel
// table of this machine, and the reference, which has written them, computes them again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tests/golden/run_golden.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/reference/golden_models.h"
#include "tests/reference/run_script.h"
#include "tests/reference/write_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::RunGolden;

const std::string kFolder = "tests/data/golden";

std::vector<std::string> TablesOfThisMachine() {
  std::vector<std::string> names;
  for (const char* name : {"scalar", "avx2", "avx512", "amx"}) {
    const bool is_trapped = name == std::string("amx") && kernels::TilesAreTrapped();
    if (!is_trapped && kernels::SelectKernels(name).table != nullptr) names.emplace_back(name);
  }
  return names;
}

void ExpectAllPass(const std::string& flags, const std::string& folders = kFolder) {
  const std::vector<std::string> tables = TablesOfThisMachine();
  ASSERT_FALSE(tables.empty());
  const std::string arguments = flags + " " + folders;
  for (const std::string& table : tables) {
    ::setenv("KVD_KERNELS", table.c_str(), 1);
    const Outcome outcome = RunGolden(arguments);
    EXPECT_EQ(outcome.status, 0) << table << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
  }
  ::unsetenv("KVD_KERNELS");
}

// Returns the normalised mean squared error of the floats [first, first + count).
double Nmse(const std::vector<float>& got, const std::vector<float>& expected, std::size_t first,
            std::size_t count) {
  double difference = 0, square = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    const double off = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    difference += off * off;
    square += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return difference / square;
}

TEST(GoldenDataTest, EveryScenarioPassesInProcess) { ExpectAllPass(""); }
TEST(GoldenDataTest, EveryScenarioPassesThroughADaemon) { ExpectAllPass("--spawn"); }
TEST(GoldenDataTest, EveryScenarioPassesWithTheDeterministicForm) {
  ExpectAllPass("--deterministic");
}
// This test returns at once unless the machine has every instruction of the amx table but the tile
// instructions, which are trapped and emulated here.
TEST(GoldenDataTest, EveryScenarioPassesWithTrappedTiles) {
  if (kernels::SelectOrTrap("amx").table == nullptr || !kernels::TilesAreTrapped()) return;
  ::setenv("KVD_KERNELS", "amx", 1);
  const Outcome outcome = RunGolden(kFolder, "kvd-golden-trapped");
  ::unsetenv("KVD_KERNELS");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}
// The relative rounding error of an f16 cell is up to 2^-12. The tolerance of a row is measured.
// The scores of shared-cells are not scaled, so rounded keys change its rows more.
TEST(GoldenDataTest, EveryScenarioPassesWithF16Cells) {
  const std::string unscaled = kFolder + "/shared-cells";
  std::string others;
  for (const reference::GoldenModel& model : reference::GoldenModels()) {
    const std::string folder = kFolder + "/" + model.folder;
    if (folder != unscaled) others += " " + folder;
  }
  ExpectAllPass("--ctk f16 --ctv f16 --cell-tolerance 2e-5", others);
  ExpectAllPass("--ctk f16 --ctv f16 --cell-tolerance 5e-4", unscaled);
}

// The reference program rounds logits to f32 only after the last operation. Another compiler or C
// library may change how a logit of the reference is rounded to f32. The error of rounding a logit
// is at most 2^-24 of the logit, so the squared error is at most 4e-15 of the squared logit.
// Sanitizer builds take every fifth model.
TEST(GoldenDataTest, TheReferenceComputesTheStoredRowsAgain) {
  constexpr double kRounding = 1e-14;
  std::size_t number = 0;
  for (const reference::GoldenModel& model : reference::GoldenModels()) {
    if (number++ % test::Stride(5) != 0) continue;
    SCOPED_TRACE(model.folder);
    const auto golden = golden::ReadCase(kFolder + "/" + model.folder);
    ASSERT_TRUE(golden.has_value()) << golden.error().message;
    const auto file = GgufFile::Open(golden->model_path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const std::vector<float> rows =
        reference::RunScript(*reference::ReadModel(reference::ModelFile(*file)), golden->scenarios);
    ASSERT_EQ(rows.size(), golden->expected.size());
    ASSERT_GT(rows.size(), 0u);
    // All rows of a folder have the same width.
    const std::size_t width = golden::RowWidth(*golden, golden->scenarios.front().steps.back());
    for (std::size_t first = 0; first < rows.size(); first += width) {
      EXPECT_LE(Nmse(rows, golden->expected, first, width), kRounding) << "row " << first / width;
    }
  }
}

TEST(GoldenDataTest, TheStoredScriptsEqualTheOutputOfMakeGolden) {
  std::set<std::string> folders;
  for (const reference::GoldenModel& model : reference::GoldenModels()) {
    folders.insert(model.folder);
    EXPECT_EQ(golden::ReadFile(kFolder + "/" + model.folder + "/script.json"),
              reference::ScriptText(reference::CaseWithoutRows(model)))
        << model.folder;
  }
  std::set<std::string> stored;
  for (const auto& entry : fs::directory_iterator(kFolder)) stored.insert(entry.path().filename());
  EXPECT_EQ(stored, folders);
}

TEST(GoldenDataTest, AFileThatCannotBeReadIsNamed) {
  const fs::path copy = fs::temp_directory_path() / ("kvd-golden-" + std::to_string(::getpid()));
  fs::create_directories(copy / "script.json");
  const auto golden = golden::ReadCase(copy);
  fs::remove_all(copy);
  ASSERT_FALSE(golden.has_value());
  EXPECT_EQ(golden.error().message, (copy / "script.json").string() + ": Is a directory");
}

TEST(GoldenDataTest, AnErrorOfOneInAThousandIsDetected) {
  const fs::path copy = fs::temp_directory_path() / ("kvd-golden-" + std::to_string(::getpid()));
  fs::copy(kFolder + "/attention", copy, fs::copy_options::recursive);
  auto golden = golden::ReadCase(copy);
  ASSERT_TRUE(golden.has_value()) << golden.error().message;
  for (std::size_t i = 0; i < golden->vocab_size; ++i) golden->expected[i] *= 1.001f;
  ASSERT_TRUE(reference::WriteCase(*golden, copy).has_value());
  const Outcome outcome = RunGolden(copy);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find(" passed, 1 failed"), std::string::npos) << outcome.text;
  fs::remove_all(copy);
}

// This test limits the size of the golden folders, which every clone of the repository has to
// fetch.
TEST(GoldenDataTest, TheDataOfTheTestsTakesAtMostFourMegabytes) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator("tests/data")) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 4u << 20);
}

}  // namespace
}  // namespace kvd
