#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/vocabulary/read_vocabulary.h"
#include "engine/vocabulary/vocabulary.h"
#include "tools/golden/run_case.h"

namespace kvd::golden {
namespace {

constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";

struct VocabularyCase {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> tokens;
  std::unique_ptr<Vocabulary> vocabulary;
};

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FailErrno(path);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

Result<VocabularyCase> ReadVocabularyCase(const std::string& path) {
  VocabularyCase read;
  KVD_TRY(const GgufFile file, GgufFile::Open(path));
  KVD_TRY(VocabularyData data, ReadVocabulary(file));
  KVD_TRY(read.vocabulary, Vocabulary::Create(std::move(data)));
  KVD_TRY(const std::string input, ReadFile(path + ".inp"));
  KVD_TRY(const std::string output, ReadFile(path + ".out"));
  std::size_t begin = 0;
  for (std::size_t end; (end = input.find(kSeparator, begin)) != std::string::npos;
       begin = end + kSeparator.size()) {
    read.texts.push_back(input.substr(begin, end - begin));
  }
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    read.tokens.push_back({std::istream_iterator<TokenId>(numbers), {}});
  }
  if (read.texts.empty() || read.texts.size() != read.tokens.size()) {
    return Fail(Code::kCorrupt, path, ": ", read.texts.size(), " texts, ", read.tokens.size(),
                " lines of tokens");
  }
  return read;
}

}  // namespace

void RunVocabulary(const std::string& path, Tally* tally) {
  const Result<VocabularyCase> read = ReadVocabularyCase(path);
  if (!read) {
    std::printf("%s: %s\n", path.c_str(), read.error().message.c_str());
    ++tally->failed;
    return;
  }
  int right = 0;
  for (std::size_t i = 0; i < read->texts.size(); ++i) {
    const auto tokens =
        read->vocabulary->Tokenize(read->texts[i], {.add_special = false, .parse_special = false});
    if (tokens && *tokens == read->tokens[i]) {
      ++right;
    } else {
      std::printf("%s text %zu: %s\n", path.c_str(), i,
                  tokens ? "the tokens differ" : tokens.error().message.c_str());
    }
  }
  std::printf("%s: %d of %zu texts passed\n", path.c_str(), right, read->texts.size());
  tally->passed += right;
  tally->failed += static_cast<int>(read->texts.size()) - right;
}

}  // namespace kvd::golden
