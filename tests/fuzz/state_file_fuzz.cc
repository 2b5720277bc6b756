// Loads any bytes as a saved-state file: the target opens the file, reads every section, loads
// every sequence into an engine with the kind of memory that the input selects, and decodes the
// sampler. Checksums, packing and fingerprint are corrected first
// (tests/fuzz/state_file_form.h).
//
// Oracle: the result is a loaded sequence with the length in its header, or a named error; an error
// leaves the sequence empty and all blocks and slots free. Seeds: make_corpus state_file FOLDER.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/sampling/kept_sampler.h"
#include "engine/saved_state/load_sequence.h"
#include "tests/fuzz/mutate_state_file.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace {

using namespace kvd;

// A sampler of an earlier version is encoded as one of the present version, which gives the same
// sampler.
void CheckSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size) {
  const auto sampler = DecodeSampler(bytes, vocab_size);
  if (!sampler) {
    KVD_ASSERT(!sampler.error().message.empty());
    return;
  }
  const std::vector<std::byte> encoded = EncodeSampler(*sampler);
  const auto again = DecodeSampler(encoded, vocab_size);
  KVD_ASSERT(again && std::ranges::equal(EncodeSampler(*again), encoded));
  KVD_ASSERT(bytes[0] != encoded[0] || std::ranges::equal(encoded, bytes));
}

void Load(Engine& engine, const StateFileReader& file, std::size_t number, std::uint32_t cells) {
  Memory& memory = engine.memory();
  const auto handle = memory.sequences().Create({});
  KVD_ASSERT(handle.has_value());
  const auto loaded =
      LoadSequence(engine, file, number, *handle, 1, Uncontrolled(), {.cells = cells});
  const std::uint32_t held = memory.sequences().Query(*handle)->cell_count;
  if (loaded) {
    const state_file::SequenceHeader& header = file.sequences()[number].header;
    KVD_ASSERT(held == loaded->cell_count && held <= header.cell_count);
    KVD_ASSERT(held == header.cell_count || held == cells);
    CheckSampler(loaded->sampler, engine.config().vocab_size);
  } else {
    KVD_ASSERT(held == 0 && !loaded.error().message.empty());
  }
  KVD_ASSERT(memory.sequences().Drop(*handle).has_value());
}

void Take(Engine& engine, std::span<const std::byte> bytes, std::uint32_t cells) {
  const Result<StateFileReader> opened = StateFileReader::Open(test::FileOf(bytes));
  if (!opened) {
    KVD_ASSERT(!opened.error().message.empty());
    return;
  }
  StateFileReader::Buffers buffers;
  for (std::size_t at = 0; at < opened->sections().size(); ++at) {
    const auto section = opened->ReadSection(at, &buffers);
    KVD_ASSERT(section ? section->size() == opened->sections()[at].raw_bytes
                       : !section.error().message.empty());
  }
  for (std::size_t number = 0; number < opened->sequences().size(); ++number) {
    Load(engine, *opened, number, cells);
  }
  const auto usage = engine.memory().Usage();
  KVD_ASSERT(usage.free_blocks == usage.total_blocks);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t byte_count,
                                               std::size_t byte_count_max, unsigned seed) {
  return test::MutateStateFile(data, byte_count, byte_count_max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size < test::kStateFileInputBytes) return 0;
  const test::StateFileInput input = test::StateFileInputOf(bytes, test::kSmallEngines);
  Engine& engine = test::SmallEngine(input.engine);
  constexpr std::array<std::uint64_t, 2> kNoNameSpace = {};
  const auto file =
      test::MakeStateFile(input.form, input.bytes,
                          {.fingerprint = engine.fingerprint().words, .name_space = kNoNameSpace});
  Take(engine, file,
       input.cells == 0 ? std::numeric_limits<std::uint32_t>::max() : std::uint32_t{input.cells});
  return 0;
}
