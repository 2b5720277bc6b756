// Writes the seeds of llama_state_fuzz into a directory: a file of each structure and type, and for
// each error message one file that differs from a valid one in a single number.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>
#include <span>
#include <string>

#include "llama_files/llama_state_file.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/llama_files/llama_samples.h"

namespace kvd::llama_state_corpus {
namespace {

using namespace kvd;

// Replacement values: small numbers, numbers above limits, unknown types, and an impossible row
// length.
constexpr std::uint64_t kNumbers[] = {0,   1,   2,          8,          64,
                                      257, 511, 0x7fffffff, 0xffffffff, std::uint64_t{1} << 40};

// Returns the error message without its digits; empty: the file is accepted.
std::string RefusalOf(std::span<const std::byte> file) {
  const auto read = ReadLlamaStateFile(file);
  if (read) return {};
  std::string text = read.error().message;
  std::erase_if(text, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  return text;
}

class Writer {
 public:
  explicit Writer(std::string folder) : folder_(std::move(folder)) {}

  void WriteSample(const std::string& name, const test::LlamaSample& sample) {
    const test::LlamaSampleFile file(sample);
    test::WriteSeed(folder_, name, file.bytes);
    for (const test::LlamaField& field : file.fields) {
      for (const std::uint64_t number : kNumbers) WriteRefused(file.With(field, number));
      WriteRefused(file.With(field, file.Value(field) + 1));
    }
    if (sample.kind != LlamaFileKind::kSession) return;
    auto unprintable = file.bytes;
    unprintable[file.field("architecture_bytes").offset + 4] = std::byte{7};
    WriteRefused(unprintable);
  }

 private:
  // Writes the file as a seed if it is the first one with its error message.
  void WriteRefused(std::span<const std::byte> file) {
    const std::string refusal = RefusalOf(file);
    if (refusal.empty() || !refusals_.insert(refusal).second) return;
    test::WriteSeed(folder_, "refused_" + std::to_string(refusals_.size()), file);
  }

  const std::string folder_;
  std::set<std::string> refusals_;
};

}  // namespace

int Make(const std::string& folder) {
  Writer writer(folder);
  for (const auto& [name, sample] : test::LlamaSamples()) writer.WriteSample(name, sample);
  return 0;
}

}  // namespace kvd::llama_state_corpus
