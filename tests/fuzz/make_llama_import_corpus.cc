// Writes the seeds of llama_import_fuzz into a directory: of each engine, files of every kind that
// it can write.
#include <cstdio>
#include <string>
#include <vector>

#include "engine/saved_state/llama_export.h"
#include "shm/check.h"
#include "tests/fuzz/llama_engines.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace {

using namespace kvd;
using kernels::DataType;

// False: the engine cannot write that.
bool WriteFile(const std::string& folder, std::size_t number, const std::string& name,
               const std::vector<SequenceHandle>& handles, const LlamaExportOptions& options,
               std::uint8_t choice) {
  Engine& engine = test::LlamaEngine(number);
  const auto opened = LlamaExport::Open(engine, handles, options);
  if (!opened) return false;
  std::vector<std::byte> seed(1 + (*opened)->bytes());
  seed[0] = static_cast<std::byte>(choice);
  KVD_ASSERT((*opened)->Write(std::span(seed).subspan(1)).has_value());
  test::WriteSeed(folder, test::LlamaEngineName(number) + "_" + name, seed);
  return true;
}

void WriteFilesOf(const std::string& folder, std::size_t number) {
  Engine& engine = test::LlamaEngine(number);
  const std::vector<SequenceHandle> short_one = {test::MakeLlamaSequence(engine, 3, 1)};
  const std::vector<SequenceHandle> long_one = {test::MakeLlamaSequence(engine, 20, 2)};
  const std::vector<SequenceHandle> two = {short_one[0], long_one[0]};
  constexpr std::uint8_t kOnlyOne = 2, kUnrotated = 3, kEvery = 0, kSecond = 6;
  for (const LlamaLayout layout : {LlamaLayout::kFebruary2025, LlamaLayout::kAugust2026}) {
    const std::string of = layout == LlamaLayout::kAugust2026 ? "2026_" : "2025_";
    KVD_ASSERT(WriteFile(folder, number, of + "sequence", short_one, {.layout = layout}, kOnlyOne));
    KVD_ASSERT(WriteFile(folder, number, of + "long", long_one, {.layout = layout}, kOnlyOne));
    LlamaExportOptions options{.kind = LlamaFileKind::kSession, .layout = layout};
    KVD_ASSERT(WriteFile(folder, number, of + "session", short_one, options, kOnlyOne));
    KVD_ASSERT(WriteFile(folder, number, of + "sessions", two, options, kEvery));
    KVD_ASSERT(WriteFile(folder, number, of + "second", two, options, kSecond));
    for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16, DataType::kQ8_0}) {
      options = {.layout = layout, .k_type = type, .v_type = type};
      const std::string name = of + kernels::DataTypeName(type);
      (void)WriteFile(folder, number, name, short_one, options, kOnlyOne);
      options.is_v_transposed = true;
      (void)WriteFile(folder, number, name + "_transposed", short_one, options, kOnlyOne);
    }
  }
  (void)WriteFile(folder, number, "2026_unrotated", short_one,
                  {.k_type = DataType::kQ8_0, .v_type = DataType::kQ8_0, .is_unrotated = true},
                  kUnrotated);
  KVD_ASSERT(WriteFile(folder, number, "2026_streams", two,
                       {.kind = LlamaFileKind::kSession, .streams = 3}, kEvery));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_llama_import_corpus DIRECTORY\n");
    return 2;
  }
  for (std::size_t number = 0; number < test::kLlamaEngines; ++number) {
    WriteFilesOf(argv[1], number);
  }
  return 0;
}
