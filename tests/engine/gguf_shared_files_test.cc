// Reads the real files that lie beside the repository; skipped where they are absent.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "engine/architectures/architecture.h"
#include "engine/gguf_file.h"
#include "engine/model_fingerprint.h"
#include "engine/model_weights.h"
#include "tests/support/golden_folders.h"

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
  if (!fs::exists(kShared / "golden")) GTEST_SKIP() << "no ../shared/golden";
  int bound = 0;
  for (const auto& folder : fs::directory_iterator(kShared / "golden")) {
    std::string name = folder.path().filename().string();
    if (!name.starts_with("llama") && name != "qwen2" && name != "qwen3") continue;
    auto weights = BindFile(folder.path() / "model.gguf");
    if (test::IsBeyondThisBuild(name)) {
      ASSERT_FALSE(weights.has_value()) << name;
      EXPECT_EQ(weights.error().code, Code::kUnsupported) << name;
      EXPECT_NE(weights.error().message.find("not supported"), std::string::npos) << name;
      continue;
    }
    EXPECT_TRUE(weights.has_value()) << name << ": " << weights.error().message;
    ++bound;
  }
  EXPECT_GE(bound, 14);
}

// Or the type of its weights, which is looked at first.
TEST(GgufSharedFilesTest, EveryOtherGoldenModelOpensAndItsArchitectureIsNamed) {
  if (!fs::exists(kShared / "golden")) GTEST_SKIP() << "no ../shared/golden";
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

TEST(GgufSharedFilesTest, TrainedModelsBind) {
  if (!fs::exists(kShared / "models")) GTEST_SKIP() << "no ../shared/models";
  for (const fs::path& path :
       {kShared / "models/stories260K.gguf", fs::path("models/notebook-1m-q8_0.gguf"),
        fs::path("models/notebook-1m-hybrid-q8_0.gguf")}) {
    auto weights = BindFile(path);
    EXPECT_TRUE(weights.has_value()) << weights.error().message;
  }
}

TEST(GgufSharedFilesTest, VocabulariesOpenWithoutTensors) {
  if (!fs::exists(kShared / "vocab")) GTEST_SKIP() << "no ../shared/vocab";
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
