// The engine and the reference tokenize the texts of tests/data/vocabulary to the stored tokens.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "engine/vocabulary/vocabulary.h"
#include "tests/golden/run_golden.h"
#include "tests/reference/vocabulary_set.h"

namespace kvd {
namespace reference {

void PrintTo(const VocabularyFile& file, std::ostream* out) { *out << file.vocabulary_path; }

}  // namespace reference

namespace {

using reference::Tokens;
using reference::VocabularyFile;

const std::string kFolder = "tests/data/vocabulary";

class VocabularyDataTest : public ::testing::TestWithParam<VocabularyFile> {
 protected:
  void SetUp() override {
    auto texts = reference::ReadTexts(kFolder + "/texts");
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
TEST_P(VocabularyDataTest, ATextComesBackFromItsTokens) {
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
                         ::testing::ValuesIn(reference::VocabularyFiles(kFolder)),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(VocabularyDataToolTest, KvdGoldenPassesEveryVocabulary) {
  const test::Outcome outcome = test::RunGolden(kFolder);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find(" passed, 0 failed"), std::string::npos) << outcome.text;
}

// The files that show every pre-tokenizer name and every model are not part of the project.
TEST(VocabularyDataToolTest, KvdGoldenPassesTheVocabulariesOfLlamaCpp) {
  const char* const named = std::getenv("KVD_VOCAB_DIR");
  const std::string folder = named == nullptr ? "../shared/vocab" : named;
  int tested = 0;
  for (const std::string& path : {folder, folder + "/pre"}) {
    if (!std::filesystem::is_directory(path)) continue;
    ++tested;
    const test::Outcome outcome = test::RunGolden(path);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
  if (tested == 0) GTEST_SKIP() << folder << ": the folder does not exist";
}

}  // namespace
}  // namespace kvd
