// A vocabulary X.gguf comes with the texts X.gguf.inp and up to three files of expected results:
// X.gguf.out (tokens, special tokens neither added nor parsed), X.gguf.special (tokens, special
// tokens added and parsed) and X.gguf.pieces (what the pieces of the tokens of .out join to,
// special tokens shown). Files of tokens have a line for each text. X.gguf.pieces has the form of
// X.gguf.inp, because it may hold line ends.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "engine/model/gguf_file.h"
#include "engine/vocabulary/vocabulary.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "tools/golden/run_case.h"

namespace kvd::golden {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";

// Texts whose tokens differ from llama.cpp's for a reason that docs/tokenizers.md gives. Such a
// text must differ; otherwise the list is wrong.
struct KnownDifferences {
  std::string_view file;
  std::vector<std::size_t> texts;
};
const KnownDifferences kKnownDifferences[] = {
    {"model-t5-user-nonascii.gguf", {1,  4,  6,  16, 17, 38, 45, 47, 50, 51, 58, 60, 61,
                                     68, 69, 70, 71, 72, 73, 74, 79, 80, 95, 96, 97}},
};

bool IsKnownDifference(const std::string& path, std::size_t text) {
  const std::string file = fs::path(path).filename();
  return std::ranges::any_of(kKnownDifferences, [&](const KnownDifferences& known) {
    return known.file == file && std::ranges::binary_search(known.texts, text);
  });
}

Result<std::vector<std::string>> ReadTexts(const std::string& path) {
  KVD_TRY(const std::string input, ReadFile(path));
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (std::size_t end; (end = input.find(kSeparator, begin)) != std::string::npos;
       begin = end + kSeparator.size()) {
    texts.push_back(input.substr(begin, end - begin));
  }
  return texts;
}

Result<std::vector<std::vector<TokenId>>> ReadTokenLines(const std::string& path) {
  KVD_TRY(const std::string output, ReadFile(path));
  std::vector<std::vector<TokenId>> lists;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    lists.push_back({std::istream_iterator<TokenId>(numbers), {}});
  }
  return lists;
}

// CaseOfVocabulary compares the results of one vocabulary with the expected ones.
class CaseOfVocabulary {
 public:
  CaseOfVocabulary(std::string path, Tally* tally) : path_(std::move(path)), tally_(tally) {}

  Status Run() {
    KVD_TRY(const GgufFile file, GgufFile::Open(path_));
    KVD_TRY(VocabularyData data, ReadVocabulary(file));
    KVD_TRY(vocabulary_, Vocabulary::Create(std::move(data)));
    KVD_TRY(texts_, ReadTexts(path_ + ".inp"));
    if (texts_.empty()) return Fail(Code::kCorrupt, path_, ".inp: no texts");
    KVD_CHECK_OK(CompareTokens(".out", {}));
    if (fs::exists(path_ + ".special")) {
      KVD_CHECK_OK(CompareTokens(".special", {.add_special = true, .parse_special = true}));
    }
    if (fs::exists(path_ + ".pieces")) KVD_CHECK_OK(ComparePieces());
    return {};
  }

 private:
  Status CompareTokens(const std::string& suffix, TokenizeOptions options) {
    KVD_TRY(const auto expected, ReadTokenLines(path_ + suffix));
    return Compare(suffix, expected,
                   [&](std::size_t i) { return vocabulary_->Tokenize(texts_[i], options); });
  }

  Status ComparePieces() {
    KVD_TRY(const std::vector<std::string> expected, ReadTexts(path_ + ".pieces"));
    return Compare(".pieces", expected, [&](std::size_t i) -> Result<std::string> {
      KVD_TRY(const std::vector<TokenId> tokens, vocabulary_->Tokenize(texts_[i], {}));
      std::string joined;
      for (const TokenId token : tokens) {
        KVD_TRY(const std::string_view piece, vocabulary_->Piece(token, true));
        joined.append(piece);
      }
      return joined;
    });
  }

  // Compares `result_of(i)` with expected[i] for each text i.
  template <class Expected, class ResultOf>
  Status Compare(const std::string& suffix, const std::vector<Expected>& expected,
                 ResultOf result_of) {
    if (expected.size() != texts_.size()) {
      return Fail(Code::kCorrupt, path_, suffix, ": ", expected.size(), " results for ",
                  texts_.size(), " texts");
    }
    int right = 0;
    int known = 0;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const Result<Expected> result = result_of(i);
      const bool is_equal = result && *result == expected[i];
      const bool may_differ = IsKnownDifference(path_, i);
      if (is_equal != may_differ) {
        ++(is_equal ? right : known);
        continue;
      }
      const char* const message = is_equal ? "does not differ, but is listed as a difference"
                                  : result ? "the result differs"
                                           : result.error().message.c_str();
      std::printf("%s%s text %zu: %s\n", path_.c_str(), suffix.c_str(), i, message);
    }
    const std::string documented = known > 0 ? Concat(", ", known, " differ as documented") : "";
    std::printf("%s%s: %d of %zu texts passed%s\n", path_.c_str(), suffix.c_str(), right,
                texts_.size(), documented.c_str());
    tally_->passed += right + known;
    tally_->failed += static_cast<int>(texts_.size()) - right - known;
    return {};
  }

  const std::string path_;
  Tally* const tally_;
  std::vector<std::string> texts_;
  std::unique_ptr<Vocabulary> vocabulary_;
};

}  // namespace

void RunVocabulary(const std::string& path, Tally* tally) {
  const Status status = CaseOfVocabulary(path, tally).Run();
  if (status) return;
  std::printf("%s: %s\n", path.c_str(), status.error().message.c_str());
  ++tally->failed;
}

}  // namespace kvd::golden
