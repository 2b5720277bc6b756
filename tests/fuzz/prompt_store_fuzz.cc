// Uses any bytes as an entry of the prompt cache. The target writes the bytes to a file whose name
// is derived from the entry's tokens. The store notices the file, finds it for a prompt that
// continues its tokens, and loads it.
//
// Oracle: the store accepts a complete entry or drops a damaged one; a loaded sequence has the
// number of cells that Find announced; an error leaves no cells and no entry of a removed file.
// Seeds: make_corpus prompt_store FOLDER.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/model/model_fingerprint.h"
#include "engine/saved_state/load_sequence.h"
#include "tests/fuzz/mutate_state_file.h"
#include "tests/fuzz/prompt_folder.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace {

using namespace kvd;

// The last small engine, t5, is left out, because its prompts cannot be cached.
constexpr std::size_t kEngines = test::kSmallEngines - 1;

test::PromptFolder& FolderOf(std::size_t number) {
  static std::array<std::unique_ptr<test::PromptFolder>, kEngines> folders;
  if (folders[number] == nullptr) {
    folders[number] = std::make_unique<test::PromptFolder>(test::SmallEngine(number));
  }
  return *folders[number];
}

// Returns the tokens of the file's first sequence; none if the file cannot be read.
std::vector<TokenId> TokensOf(const Engine& engine, std::span<const std::byte> bytes) {
  const auto opened = StateFileReader::Open(test::FileOf(bytes));
  if (!opened || opened->sequences().empty()) return {};
  const auto saved = ReadSavedTokens(engine, *opened, 0);
  return saved ? saved->tokens : std::vector<TokenId>();
}

void Load(Engine& engine, PromptStore& store, const std::vector<TokenId>& prompt) {
  const auto found = store.Find(OwnerId{}, 0, prompt, 0);
  if (!found) return;
  KVD_ASSERT(found->cells < prompt.size() && found->cells <= found->cells_read);
  const auto loaded = store.Load(*found, {}, prompt, nullptr);
  if (!loaded) {
    KVD_ASSERT(!loaded.error().message.empty());
    return;
  }
  const auto info = engine.memory().sequences().Query(*loaded);
  KVD_ASSERT(info.has_value() && info->cell_count == found->cells_read);
  KVD_ASSERT(engine.memory().sequences().Drop(*loaded).has_value());
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t byte_count,
                                               std::size_t byte_count_max, unsigned seed) {
  return test::MutateStateFile(data, byte_count, byte_count_max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < test::kStateFileInputBytes) return 0;
  const test::StateFileInput input =
      test::StateFileInputOf(std::as_bytes(std::span(data, size)), kEngines);
  Engine& engine = test::SmallEngine(input.engine);
  test::PromptFolder& folder = FolderOf(input.engine);
  PromptStore& store = folder.store();
  const auto file = test::MakeStateFile(
      input.form, input.bytes,
      {.fingerprint = engine.fingerprint().words, .name_space = folder.name_space()});
  std::vector<TokenId> prompt = TokensOf(engine, file);
  const std::string name = folder.NameOf(prompt);
  folder.Put(name, file);
  KVD_ASSERT(store.counts().entries <= 1);
  // The prompt diverges from the entry's tokens, or continues them if input.cells is 0 or not below
  // their number.
  if (input.cells < prompt.size()) prompt.resize(prompt.size() - input.cells);
  prompt.push_back(1);
  Load(engine, store, prompt);
  folder.Remove(name);
  KVD_ASSERT(store.counts().entries == 0 && store.counts().entry_bytes == 0);
  const auto usage = engine.memory().Usage();
  KVD_ASSERT(usage.free_blocks == usage.total_blocks);
  return 0;
}
