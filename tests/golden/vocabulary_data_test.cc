// The engine and the reference tokenize the texts of tests/data/vocabulary to the stored tokens.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "engine/vocabulary/vocabulary.h"
#include "tests/golden/run_golden.h"
#include "tests/reference/vocabulary_set.h"
#include "tests/support/parameter_name.h"
#include "tests/support/shared_files.h"

namespace kvd {
namespace reference {

void PrintTo(const VocabularyFile& file, std::ostream* out) { *out << file.vocabulary_path; }

}  // namespace reference

namespace {

using reference::Tokens;
using reference::VocabularyFile;

namespace fs = std::filesystem;

const std::string kVocabularyFolder = "tests/data/vocabulary";

class VocabularyDataTest : public ::testing::TestWithParam<VocabularyFile> {
 protected:
  void SetUp() override {
    auto texts = reference::ReadTexts(kVocabularyFolder + "/texts");
    ASSERT_TRUE(texts.has_value()) << texts.error().message;
    auto lines = reference::ReadTokenLines(GetParam().tokens_path);
    ASSERT_TRUE(lines.has_value()) << lines.error().message;
    auto data = reference::ReadVocabularyFile(GetParam().vocabulary_path);
    ASSERT_TRUE(data.has_value()) << data.error().message;
    texts_ = *texts;
    stored_ = *lines;
    data_ = *data;
    ASSERT_FALSE(texts_.empty());
    ASSERT_EQ(texts_.size(), stored_.size());
  }

  std::vector<std::string> texts_;
  std::vector<Tokens> stored_;
  VocabularyData data_;
};

TEST_P(VocabularyDataTest, TheEngineGivesTheStoredTokens) {
  const auto vocabulary = Vocabulary::Create(data_);
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const auto tokens = (*vocabulary)->Tokenize(texts_[i], {});
    ASSERT_TRUE(tokens.has_value()) << tokens.error().message;
    EXPECT_EQ(*tokens, stored_[i]) << "text " << i << ": '" << texts_[i] << "'";
  }
}

TEST_P(VocabularyDataTest, TheReferenceGivesTheStoredTokens) {
  const reference::Lexicon lexicon(data_);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    EXPECT_EQ(reference::Tokenize(lexicon, texts_[i]), stored_[i])
        << "text " << i << ": '" << texts_[i] << "'";
  }
}

// Unigram and WordPiece vocabularies are left out: they normalise a text, so that its tokens yield
// another text.
TEST_P(VocabularyDataTest, ATextIsRestoredFromItsTokens) {
  const auto vocabulary = Vocabulary::Create(data_);
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
  const Vocabulary::Kind kind = (*vocabulary)->kind();
  if (kind == Vocabulary::Kind::kUnigram || kind == Vocabulary::Kind::kWordPiece) return;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const auto text = (*vocabulary)->Detokenize(stored_[i], {});
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(*text, texts_[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryVocabulary, VocabularyDataTest,
                         ::testing::ValuesIn(reference::VocabularyFiles(kVocabularyFolder)),
                         [](const auto& tested) { return test::ParameterName(tested.param.name); });

TEST(VocabularyDataToolTest, KvdGoldenPassesEveryVocabulary) {
  const test::Outcome outcome = test::RunGolden(kVocabularyFolder);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
}

// A folder with a vocabulary of tests/data and the results that the engine gives for its texts.
class ResultFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("vocabulary_results_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (const char* suffix : {"", ".inp", ".out"}) {
      fs::copy_file(kVocabularyFolder + "/" + kName + suffix, folder_ / (kName + suffix),
                    fs::copy_options::overwrite_existing);
    }
    const auto texts = reference::ReadTexts(kVocabularyFolder + "/texts");
    const auto data = reference::ReadVocabularyFile(kVocabularyFolder + "/" + kName);
    ASSERT_TRUE(texts.has_value() && data.has_value());
    const auto vocabulary = Vocabulary::Create(*data);
    ASSERT_TRUE(vocabulary.has_value());
    for (const std::string& text : *texts) {
      const auto tokens =
          (*vocabulary)->Tokenize(text, {.add_special = true, .parse_special = true});
      for (const TokenId token : *tokens) special_ += std::to_string(token) + " ";
      special_ += "\n";
      pieces_ += text + "\n__ggml_vocab_test__\n";
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& suffix, const std::string& content) {
    std::ofstream(folder_ / (kName + suffix), std::ios::binary) << content;
  }

  const std::string kName = "byte-pair.gguf";
  fs::path folder_;
  std::string special_;
  std::string pieces_;
};

TEST_F(ResultFilesTest, KvdGoldenComparesTheResultsThatExist) {
  Write(".special", special_);
  Write(".pieces", pieces_);
  test::Outcome outcome = test::RunGolden(folder_.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find(".special: "), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find(".pieces: "), std::string::npos) << outcome.text;
  Write(".special", "99999 " + special_);
  outcome = test::RunGolden(folder_.string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find(".special text 0: the result differs"), std::string::npos);
  Write(".special", special_);
  Write(".pieces", "x" + pieces_);
  outcome = test::RunGolden(folder_.string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find(".pieces text 0: the result differs"), std::string::npos);
}

TEST_F(ResultFilesTest, KvdGoldenRefusesAFileWithTooFewResults) {
  Write(".special", "1 2\n");
  const test::Outcome outcome = test::RunGolden(folder_.string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find(".special: 1 results for "), std::string::npos) << outcome.text;
}

// The files that show every pre-tokenizer name and every model are not part of the project.
TEST(VocabularyDataToolTest, KvdGoldenPassesTheVocabulariesOfLlamaCpp) {
  const char* const named = std::getenv("KVD_VOCAB_DIR");
  const std::string missing = named == nullptr ? test::MissingShared("vocab") : "";
  if (!missing.empty()) GTEST_SKIP() << missing;
  const std::string folder = named == nullptr ? "../shared/vocab" : named;
  int tested = 0;
  for (const std::string& path : {folder, folder + "/pre"}) {
    if (!fs::is_directory(path)) continue;
    ++tested;
    const test::Outcome outcome = test::RunGolden(path);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
  EXPECT_GT(tested, 0) << folder << ": the folder does not exist";
}

}  // namespace
}  // namespace kvd
