// Measures how fast a text of 1 MB becomes tokens, and tokens become text, for each vocabulary of
// ../shared/vocab or of the folder named by KVD_VOCAB_DIR, against copying the text.
//
// --write_prose=FILE writes the text, so that other programs can be measured with it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/must.h"
#include "bench/prose.h"
#include "engine/model/gguf_file.h"
#include "engine/vocabulary/vocabulary.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace {

using namespace kvd;
using bench::Must;
namespace fs = std::filesystem;

constexpr std::size_t kTextBytes = 1'000'000;

const std::string& Text() {
  static const std::string text = bench::MakeProse(kTextBytes, 1);
  return text;
}

std::unique_ptr<Vocabulary> Load(const std::string& path) {
  const GgufFile file = Must(GgufFile::Open(path));
  return Must(Vocabulary::Create(Must(ReadVocabulary(file))));
}

void BM_TextCopy(benchmark::State& state) {
  std::string copy(Text().size(), '\0');
  for (auto _ : state) {
    std::memcpy(copy.data(), Text().data(), Text().size());
    benchmark::DoNotOptimize(copy.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kTextBytes));
}
BENCHMARK(BM_TextCopy)->Unit(benchmark::kMillisecond);

void TokenizeText(benchmark::State& state, const std::string& path) {
  const auto vocabulary = Load(path);
  std::size_t token_count = 0;
  for (auto _ : state) token_count = Must(vocabulary->Tokenize(Text(), {})).size();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kTextBytes));
  state.counters["tokens"] = static_cast<double>(token_count);
}

void DetokenizeText(benchmark::State& state, const std::string& path) {
  const auto vocabulary = Load(path);
  const std::vector<TokenId> tokens = Must(vocabulary->Tokenize(Text(), {}));
  std::size_t bytes = 0;
  for (auto _ : state) bytes = Must(vocabulary->Detokenize(tokens, {})).size();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void RegisterFolder(const fs::path& folder) {
  std::error_code missing;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing)) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string name = path.stem();
    benchmark::RegisterBenchmark(("BM_TextTokenize/vocabulary:" + name).c_str(), TokenizeText,
                                 path.string())
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("BM_TextDetokenize/vocabulary:" + name).c_str(), DetokenizeText,
                                 path.string())
        ->Unit(benchmark::kMillisecond);
  }
  if (paths.empty()) std::fprintf(stderr, "%s: no vocabularies\n", folder.c_str());
}

}  // namespace

int main(int argument_count, char** arguments) {
  constexpr std::string_view kWriteProse = "--write_prose=";
  if (argument_count == 2 && std::string_view(arguments[1]).starts_with(kWriteProse)) {
    std::ofstream(arguments[1] + kWriteProse.size(), std::ios::binary) << Text();
    return 0;
  }
  const char* folder = std::getenv("KVD_VOCAB_DIR");
  const fs::path vocabularies = folder == nullptr ? "../shared/vocab" : folder;
  RegisterFolder(vocabularies);
  RegisterFolder(vocabularies / "pre");
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
