#include "tests/reference/vocabulary_set.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/model/gguf_file.h"
#include "engine/model/gguf_writer.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "tests/reference/train_vocabularies.h"
#include "tools/golden/golden_case.h"

namespace kvd::reference {
namespace {

using golden::ReadFile;

const std::string kBundledModel = "notebook-1m-q8_0.gguf";

struct Trained {
  const char* name;
  VocabularyData (*train)(const std::vector<std::string>& texts);
};
constexpr Trained kTrained[] = {
    {"byte-pair", TrainBytePair}, {"unigram", TrainUnigram}, {"word-piece", TrainWordPiece}};

Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) return FailErrno(path);
  return {};
}

Status WriteVocabulary(const VocabularyData& data, const std::string& path) {
  GgufWriter writer;
  const auto add_strings = [&](const char* key, const std::vector<std::string>& strings) {
    const std::vector<std::string_view> views(strings.begin(), strings.end());
    if (!views.empty()) writer.AddStringArray(key, views);
  };
  const auto add_id = [&](const char* key, const std::optional<std::uint32_t>& id) {
    if (id) writer.AddU32(key, *id);
  };
  const auto add_flag = [&](const char* key, const std::optional<bool>& flag) {
    if (flag) writer.AddBool(key, *flag);
  };
  writer.AddString("general.architecture", "llama");
  writer.AddString("tokenizer.ggml.model", data.model);
  if (!data.pre.empty()) writer.AddString("tokenizer.ggml.pre", data.pre);
  add_strings("tokenizer.ggml.tokens", data.tokens);
  writer.AddF32Array("tokenizer.ggml.scores", data.scores);
  writer.AddI32Array("tokenizer.ggml.token_type", data.token_types);
  add_strings("tokenizer.ggml.merges", data.merges);
  add_id("tokenizer.ggml.bos_token_id", data.bos);
  add_id("tokenizer.ggml.eos_token_id", data.eos);
  add_id("tokenizer.ggml.unknown_token_id", data.unk);
  add_id("tokenizer.ggml.seperator_token_id", data.sep);
  add_id("tokenizer.ggml.padding_token_id", data.pad);
  add_id("tokenizer.ggml.mask_token_id", data.mask);
  add_flag("tokenizer.ggml.add_space_prefix", data.add_space_prefix);
  add_flag("tokenizer.ggml.remove_extra_whitespaces", data.remove_extra_whitespaces);
  return writer.WriteFile(path, [](std::size_t, GgufSink&) -> Status { return {}; });
}

std::string TokenLines(const VocabularyData& data, const std::vector<std::string>& texts) {
  const Lexicon lexicon(data);
  std::ostringstream lines;
  for (const std::string& text : texts) {
    for (const TokenId token : Tokenize(lexicon, text)) lines << ' ' << token;
    lines << '\n';
  }
  return lines.str();
}

}  // namespace

std::vector<VocabularyFile> VocabularyFiles(const std::string& folder) {
  std::vector<VocabularyFile> files = {
      {"bundled", "models/" + kBundledModel, folder + "/" + kBundledModel + ".out"}};
  for (const Trained& trained : kTrained) {
    const std::string path = folder + "/" + trained.name + ".gguf";
    files.push_back({trained.name, path, path + ".out"});
  }
  return files;
}

Result<std::vector<std::string>> ReadTexts(const std::string& path) {
  KVD_TRY(const std::string bytes, ReadFile(path));
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (std::size_t end; (end = bytes.find(kTextEnd, begin)) != std::string::npos;
       begin = end + kTextEnd.size()) {
    texts.push_back(bytes.substr(begin, end - begin));
  }
  return texts;
}

Result<std::vector<Tokens>> ReadTokenLines(const std::string& path) {
  KVD_TRY(const std::string bytes, ReadFile(path));
  std::vector<Tokens> lines;
  std::istringstream stream(bytes);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream numbers(line);
    lines.push_back({std::istream_iterator<TokenId>(numbers), {}});
  }
  return lines;
}

Result<VocabularyData> ReadVocabularyFile(const std::string& path) {
  KVD_TRY(const GgufFile file, GgufFile::Open(path));
  return ReadVocabulary(file);
}

Status WriteVocabularySet(const std::string& folder) {
  KVD_TRY(const std::string bytes, ReadFile(folder + "/texts"));
  KVD_TRY(const std::vector<std::string> texts, ReadTexts(folder + "/texts"));
  for (const Trained& trained : kTrained) {
    const std::string path = folder + "/" + trained.name + ".gguf";
    KVD_CHECK_OK(WriteVocabulary(trained.train(texts), path));
    KVD_CHECK_OK(WriteFile(path + ".inp", bytes));
  }
  for (const VocabularyFile& file : VocabularyFiles(folder)) {
    KVD_TRY(const VocabularyData data, ReadVocabularyFile(file.vocabulary_path));
    KVD_CHECK_OK(WriteFile(file.tokens_path, TokenLines(data, texts)));
  }
  return {};
}

}  // namespace kvd::reference
