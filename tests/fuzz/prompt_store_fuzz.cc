// Any bytes as an entry of the prompt cache: a file appears in its folder, under the name that its
// tokens would have, is noticed, found by a prompt that goes on behind them, and loaded.
//
// Oracle: an entry is noticed whole or dropped as damaged; what is loaded is a sequence of the
// prompt's beginning as long as was told, and an error leaves nothing behind, neither cells nor an
// entry of a file that is gone. Seeds: make_prompt_store_corpus DIRECTORY.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model_fingerprint.h"
#include "engine/saved_state/load_sequence.h"
#include "shm/check.h"
#include "tests/fuzz/mutate_state_file.h"
#include "tests/fuzz/prompt_folder.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace {

using namespace kvd;

// The last of them, t5, has no prompts of its own.
constexpr std::size_t kEngines = test::kSmallEngines - 1;

test::PromptFolder& FolderOf(std::size_t number) {
  static std::array<std::unique_ptr<test::PromptFolder>, kEngines> folders;
  if (folders[number] == nullptr) {
    folders[number] = std::make_unique<test::PromptFolder>(test::SmallEngine(number));
  }
  return *folders[number];
}

// The tokens of its first sequence; none where the file cannot be read.
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
  // A prompt that parts from the entry, or one that goes on behind it.
  if (input.cells < prompt.size()) prompt.resize(prompt.size() - input.cells);
  prompt.push_back(1);
  Load(engine, store, prompt);
  folder.Remove(name);
  KVD_ASSERT(store.counts().entries == 0 && store.counts().entry_bytes == 0);
  const auto usage = engine.memory().Usage();
  KVD_ASSERT(usage.free_blocks == usage.total_blocks);
  return 0;
}
