#include "tests/engine/vocabulary/vocabulary_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "engine/model/gguf_file.h"
#include "engine/vocabulary/byte_pair.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "tests/support/shared_files.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ggml-vocab-";
constexpr std::string_view kSuffix = ".gguf";

std::string PathOf(const std::string& name) {
  return VocabularyFolder() + "/" + std::string(kPrefix) + name + std::string(kSuffix);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void AddToken(VocabularyData& data, std::string text, GgufTokenType type, float score = 0) {
  data.tokens.push_back(std::move(text));
  data.token_types.push_back(static_cast<std::int32_t>(type));
  data.scores.push_back(score);
}

}  // namespace

std::string VocabularyFolder() {
  const char* folder = std::getenv("KVD_VOCAB_DIR");
  return folder == nullptr ? "../shared/vocab" : folder;
}

std::vector<std::string> VocabularyNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(VocabularyFolder(), error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    names.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
  }
  std::ranges::sort(names);
  return names;
}

std::string MissingVocabularies() {
  if (!VocabularyNames().empty()) return {};
  if (std::getenv("KVD_VOCAB_DIR") == nullptr) {
    if (std::string missing = test::MissingShared("vocab"); !missing.empty()) return missing;
  }
  return VocabularyFolder() + ": the folder has no vocabularies";
}

std::unique_ptr<Vocabulary> LoadVocabulary(const std::string& name) {
  return LoadVocabularyFile(PathOf(name));
}

std::unique_ptr<Vocabulary> LoadVocabularyFile(const std::string& path) {
  if (!fs::exists(path)) return nullptr;
  Result<GgufFile> file = GgufFile::Open(path);
  EXPECT_TRUE(file.has_value()) << path << ": " << file.error().message;
  if (!file) return nullptr;
  Result<VocabularyData> data = ReadVocabulary(*file);
  EXPECT_TRUE(data.has_value()) << path << ": " << data.error().message;
  return data ? MakeVocabulary(std::move(*data)) : nullptr;
}

std::vector<VocabularyCase> LoadCases(const std::string& name) {
  constexpr std::string_view separator = "\n__ggml_vocab_test__\n";
  std::vector<VocabularyCase> cases;
  std::string texts = ReadAll(PathOf(name) + ".inp");
  std::istringstream lines(ReadAll(PathOf(name) + ".out"));
  std::size_t begin = 0;
  for (std::string line; std::getline(lines, line);) {
    std::size_t end = texts.find(separator, begin);
    EXPECT_NE(end, texts.npos) << name << ": more lines in .out than texts in .inp";
    if (end == texts.npos) break;
    VocabularyCase& added = cases.emplace_back();
    added.text = texts.substr(begin, end - begin);
    begin = end + separator.size();
    std::istringstream numbers(line);
    for (TokenId token; numbers >> token;) added.tokens.push_back(token);
  }
  EXPECT_EQ(begin, texts.size()) << name << ": more texts in .inp than lines in .out";
  return cases;
}

VocabularyData SmallBytePairData() {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(data, std::string(ByteCharacter(static_cast<std::uint8_t>(byte))),
             GgufTokenType::kNormal);
  }
  for (const char* text : {"he", "ll", "hell", "hello", "\u0120hello"})
    AddToken(data, text, GgufTokenType::kNormal);
  AddToken(data, "<|end|>", GgufTokenType::kControl);
  AddToken(data, "<user>", GgufTokenType::kUserDefined);
  data.merges = {"h e", "l l", "he ll", "hell o", "\u0120 hello"};
  data.eos = 261;
  return data;
}

VocabularyData SmallSentencePieceData() {
  VocabularyData data;
  data.model = "llama";
  AddToken(data, "<unk>", GgufTokenType::kUnknown);
  AddToken(data, "<s>", GgufTokenType::kControl);
  AddToken(data, "</s>", GgufTokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    auto high = static_cast<std::size_t>(byte / 16);
    auto low = static_cast<std::size_t>(byte % 16);
    AddToken(data, std::string("<0x") + digits[high] + digits[low] + ">", GgufTokenType::kByte);
  }
  float score = 0;
  for (const char* text :
       {"\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello"}) {
    AddToken(data, text, GgufTokenType::kNormal, score);
    score -= 1;
  }
  AddToken(data, "<user>", GgufTokenType::kUserDefined);
  return data;
}

std::unique_ptr<Vocabulary> MakeVocabulary(VocabularyData data) {
  Result<std::unique_ptr<Vocabulary>> made = Vocabulary::Create(std::move(data));
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made ? std::move(*made) : nullptr;
}

std::vector<TokenId> TokensOf(const VocabularyData& data, std::string_view text,
                              TokenizeOptions options) {
  const auto vocabulary = MakeVocabulary(data);
  const Result<std::vector<TokenId>> tokens = vocabulary->Tokenize(text, options);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

}  // namespace kvd
