#include "http/options/model_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/e2e/support/temporary_folder.h"

namespace kvd::http {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kOtherCommit = "ffffffffffffffffffffffffffffffffffffffff";

class ModelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { variables_["LLAMA_CACHE"] = folder_.path().string(); }

  void MakeFile(const fs::path& path, const std::string& text = "") const {
    fs::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << text;
  }
  void MakeRepository(const std::string& commit = kCommit, const std::string& branch = "main") {
    MakeFile("models--user--model/refs/" + branch, commit + "\n");
    root_ = fs::path("models--user--model/snapshots") / commit;
  }
  void AddFile(const std::string& name) const { MakeFile(root_ / name); }

  Result<std::string> Find(const std::string& repository, const std::string& file = "") {
    Settings settings;
    settings.hub_repository = repository;
    settings.hub_file = file;
    return Find(settings);
  }
  Result<std::string> Find(const Settings& settings) {
    return FindModelFile(settings, [this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }
  // The path of a file of the repository.
  std::string PathOf(const std::string& name) const {
    return (folder_.path() / root_ / name).string();
  }

  kvd::test::TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
  fs::path root_;
};

TEST_F(ModelCacheTest, FindsTheNamedFile) {
  MakeRepository();
  AddFile("a.gguf");
  AddFile("sub/b.gguf");
  EXPECT_EQ(Find("user/model", "sub/b.gguf").value_or(""), PathOf("sub/b.gguf"));
  EXPECT_FALSE(Find("user/model", "b.gguf"));
}

TEST_F(ModelCacheTest, PrefersQ4KMThenQ8ThenTheFirstModel) {
  MakeRepository();
  AddFile("README.md");
  AddFile("mmproj-F16.gguf");
  AddFile("model-F16.gguf");
  EXPECT_EQ(Find("user/model").value_or(""), PathOf("model-F16.gguf"));
  AddFile("model-Q8_0.gguf");
  EXPECT_EQ(Find("user/model").value_or(""), PathOf("model-Q8_0.gguf"));
  AddFile("model-q4_k_m.gguf");
  EXPECT_EQ(Find("user/model").value_or(""), PathOf("model-q4_k_m.gguf"));
}

TEST_F(ModelCacheTest, FindsTheQuantisationInAnyCase) {
  MakeRepository();
  AddFile("model-Q8_0.gguf");
  AddFile("model-IQ2_XS.gguf");
  EXPECT_EQ(Find("user/model:iq2_xs").value_or(""), PathOf("model-IQ2_XS.gguf"));
  EXPECT_FALSE(Find("user/model:Q5_K"));
}

TEST_F(ModelCacheTest, FindsTheFirstFileOfAModelInSeveral) {
  MakeRepository();
  AddFile("model-Q8_0-00002-of-00002.gguf");
  AddFile("model-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(Find("user/model:Q8_0").value_or(""), PathOf("model-Q8_0-00001-of-00002.gguf"));
}

TEST_F(ModelCacheTest, PrefersTheBranchMain) {
  MakeRepository(kOtherCommit, "other");
  AddFile("other.gguf");
  EXPECT_EQ(Find("user/model").value_or(""), PathOf("other.gguf"));
  MakeRepository();
  AddFile("main.gguf");
  EXPECT_EQ(Find("user/model").value_or(""), PathOf("main.gguf"));
}

TEST_F(ModelCacheTest, IgnoresARefThatNamesNoCommit) {
  MakeRepository("../../../elsewhere");
  AddFile("a.gguf");
  EXPECT_FALSE(Find("user/model"));
}

TEST_F(ModelCacheTest, FindsFilesWithEarlierNamesOfLlamaCpp) {
  MakeFile("user_model_model-Q8_0.gguf");
  EXPECT_EQ(Find("user/model").value_or(""),
            (folder_.path() / "user_model_model-Q8_0.gguf").string());
  EXPECT_EQ(Find("user/model", "model-Q8_0.gguf").value_or(""),
            (folder_.path() / "user_model_model-Q8_0.gguf").string());
}

TEST_F(ModelCacheTest, SaysHowToGetAFileThatIsMissing) {
  const auto found = Find("user/model", "a.gguf");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_TRUE(found.error().message.starts_with("--hf-repo: user/model a.gguf is not in " +
                                                folder_.path().string()))
      << found.error().message;
  EXPECT_TRUE(found.error().message.ends_with("hf download user/model a.gguf"));
}

TEST_F(ModelCacheTest, RefusesNamesThatAreNoRepository) {
  for (const char* const name : {"model", "/model", "user/", "a/b/c", ":Q8_0"}) {
    const auto found = Find(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code, Code::kInvalidArgument) << name;
  }
}

TEST_F(ModelCacheTest, FindsTheFileOfAUrlByItsName) {
  Settings settings;
  settings.model_url = "https://host/path/tiny.gguf?download=true#part";
  const auto missing = Find(settings);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("curl -L -o"), std::string::npos);
  MakeFile("tiny.gguf");
  EXPECT_EQ(Find(settings).value_or(""), (folder_.path() / "tiny.gguf").string());
}

TEST_F(ModelCacheTest, UsesTheFirstDirectoryThatTheEnvironmentNames) {
  MakeRepository();
  AddFile("a.gguf");
  const std::string own = folder_.path().string();
  fs::create_directories(folder_.path() / "hub");
  fs::copy(folder_.path() / "models--user--model", folder_.path() / "hub/models--user--model",
           fs::copy_options::recursive);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"HF_HUB_CACHE", own}, {"HF_HOME", own}}) {
    variables_ = {{name, value}, {"HOME", "/nowhere"}};
    EXPECT_TRUE(Find("user/model")) << name;
  }
  variables_ = {{"HOME", "/nowhere"}};
  EXPECT_FALSE(Find("user/model"));
}

TEST_F(ModelCacheTest, APlainPathIsUsedUnchanged) {
  Settings settings;
  EXPECT_EQ(Find(settings).value_or("error"), "");
  settings.model_path = "some.gguf";
  EXPECT_EQ(Find(settings).value_or(""), "some.gguf");
}

}  // namespace
}  // namespace kvd::http
