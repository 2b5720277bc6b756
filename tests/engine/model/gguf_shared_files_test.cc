// Reads the model files in ../shared, a folder next to the repository. Tests are skipped where the
// folder is absent.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_weights.h"
#include "tests/support/golden_folders.h"
#include "tests/support/shared_files.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;

const fs::path kShared = "../shared";

Result<ModelWeights> BindFile(const fs::path& path) {
  KVD_TRY(auto file, GgufFile::Open(path.string()));
  KVD_TRY(auto config, ReadModelConfig(file));
  KVD_TRY(auto weights, BindWeights(file, config));
  EXPECT_NE(ComputeFingerprint(file, config), ModelFingerprint{});
  return weights;
}

TEST(GgufSharedFilesTest, EveryGoldenModelOfASupportedArchitectureBindsOrIsRefusedByName) {
  if (const std::string missing = test::MissingShared("golden"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  int bound = 0;
  for (const auto& folder : fs::directory_iterator(kShared / "golden")) {
    std::string name = folder.path().filename().string();
    if (!folder.is_directory()) continue;
    auto weights = BindFile(folder.path() / "model.gguf");
    if (test::IsBeyondThisBuild(name)) {
      // Models that differ from supported ones only in their embeddings can be bound.
      if (weights.has_value()) continue;
      const std::string& problem = weights.error().message;
      EXPECT_TRUE(problem.find("not supported") != std::string::npos ||
                  problem.find("unknown to this architecture") != std::string::npos)
          << name << ": " << problem;
      continue;
    }
    EXPECT_TRUE(weights.has_value()) << name << ": " << weights.error().message;
    ++bound;
  }
  EXPECT_GE(bound, 60);
}

// The error names the architecture, or the ggml type of the weights, which is checked first.
TEST(GgufSharedFilesTest, GoldenModelsOfOtherArchitecturesOpenAndAreRefusedByName) {
  if (const std::string missing = test::MissingShared("golden"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  for (const auto& folder : fs::directory_iterator(kShared / "golden")) {
    if (!folder.is_directory()) continue;
    auto file = GgufFile::Open((folder.path() / "model.gguf").string());
    if (!file && file.error().code == Code::kUnsupported) {
      EXPECT_NE(file.error().message.find("ggml type"), std::string::npos) << file.error().message;
      continue;
    }
    ASSERT_TRUE(file.has_value()) << file.error().message;
    std::string architecture(*file->GetString("general.architecture"));
    if (DefinitionByName(architecture)) continue;
    auto config = ReadModelConfig(*file);
    ASSERT_FALSE(config.has_value());
    EXPECT_EQ(config.error().code, Code::kUnsupported);
    EXPECT_NE(config.error().message.find(architecture), std::string::npos);
  }
}

TEST(GgufSharedFilesTest, BundledModelsBind) {
  for (const char* path : {"models/notebook-1m-q8_0.gguf", "models/notebook-1m-hybrid-q8_0.gguf"}) {
    auto weights = BindFile(path);
    EXPECT_TRUE(weights.has_value()) << weights.error().message;
  }
}

TEST(GgufSharedFilesTest, APublishedModelBinds) {
  if (const std::string missing = test::MissingShared("models"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  auto weights = BindFile(kShared / "models/stories260K.gguf");
  EXPECT_TRUE(weights.has_value()) << weights.error().message;
}

TEST(GgufSharedFilesTest, VocabulariesOpenWithoutTensors) {
  if (const std::string missing = test::MissingShared("vocab"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  int opened = 0;
  for (const auto& entry : fs::directory_iterator(kShared / "vocab")) {
    if (entry.path().extension() != ".gguf") continue;
    auto file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_TRUE(file->tensors().empty());
    auto tokens = file->GetStringArray("tokenizer.ggml.tokens");
    ASSERT_TRUE(tokens.has_value()) << tokens.error().message;
    EXPECT_GE(tokens->size(), 32000u);
    ++opened;
  }
  EXPECT_GE(opened, 6);
}

}  // namespace
}  // namespace kvd
