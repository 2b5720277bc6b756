// The client library reads any bytes as a state file of llama.cpp and converts them for each of
// several engines, and the engine loads the converted state as the daemon does. The result is a
// sequence with the file's cells, which is exported again in both layouts, or a refusal that has
// changed nothing. Most files belong to a model of only one of the engines.
//
// The first byte chooses whether heads are rotated back, and whether all sequences of a session or
// only the one with a given id are imported. Seeds: make_corpus llama_import FOLDER.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "llama_files/llama_sequence.h"
#include "tests/fuzz/llama_engines.h"
#include "tests/support/llama_conversion.h"

namespace {

using namespace kvd;

constexpr std::size_t kIdsMax = 3;  // at most this many sequences of a session are imported

std::vector<std::int32_t> IdsOf(const LlamaSequenceIndex& index, unsigned choice) {
  if (choice % 4 != 0) return {static_cast<std::int32_t>(choice % 4) - 2};
  std::vector<std::int32_t> ids = index.ids();
  ids.resize(std::min(ids.size(), kIdsMax));
  return ids;
}

// Checks that the imported sequence can be exported in both layouts and that the export can be
// read.
void ExportAgain(Engine& engine, SequenceHandle handle, const LlamaStateFile& from) {
  for (const LlamaLayout layout : {LlamaLayout::kFebruary2025, LlamaLayout::kAugust2026}) {
    const auto file = test::ExportLlama(engine, {&handle, 1},
                                        {.kind = LlamaFileKind::kSession, .layout = layout});
    // A key close to the end of f16's range may leave the range when it is rotated to its position.
    KVD_ASSERT(file.has_value() || file.error().code == Code::kNumerical);
    if (!file) continue;
    const auto read = ReadLlamaStateFile(*file);
    KVD_ASSERT(read.has_value() && read->layout == layout && !read->architecture.empty());
    KVD_ASSERT(read->tokens.size() <= from.tokens.size());
  }
}

void Import(Engine& engine, std::span<const std::byte> file, const LlamaStateFile& read,
            unsigned choice) {
  const PoolUsage before = engine.memory().Usage();
  const auto index = LlamaSequenceIndex::Create(read);
  KVD_ASSERT(index.has_value());
  for (const std::int32_t id : IdsOf(*index, choice / 2)) {
    const auto handle = engine.memory().sequences().Create({});
    KVD_ASSERT(handle.has_value());
    const auto imported = test::ImportLlama(engine, file, *index, *handle,
                                            {.sequence_id = id, .is_unrotated = choice % 2 != 0});
    const std::uint32_t cells = engine.memory().sequences().Query(*handle)->cell_count;
    if (imported) {
      KVD_ASSERT(cells != 0 && cells == imported->cell_count);
      KVD_ASSERT(engine.memory().sequences().Query(*handle)->pristine_cells == 0);
      ExportAgain(engine, *handle, read);
    } else {
      KVD_ASSERT(cells == 0 && !imported.error().message.empty());
    }
    KVD_ASSERT(engine.memory().sequences().Drop(*handle).has_value());
  }
  const PoolUsage after = engine.memory().Usage();
  KVD_ASSERT(after.free_blocks == before.free_blocks &&
             after.free_state_slots == before.free_state_slots);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  const auto file = std::as_bytes(std::span(data + 1, bytes - 1));
  const auto read = ReadLlamaStateFile(file);
  if (!read) {
    KVD_ASSERT(!read.error().message.empty());
    return 0;
  }
  for (std::size_t number = 0; number < test::kLlamaEngines; ++number) {
    Import(test::LlamaEngine(number), file, *read, data[0]);
  }
  return 0;
}
