// Loading: reads one sequence of a saved state into an empty sequence of the memory.
//
// The state is checked completely (structure, checksums, finite numbers) before one commit changes
// the sequence. Other sequences can be used during a load. Any thread may load; the call blocks
// until the load has ended.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/work_control.h"
#include "engine/engine.h"
#include "engine/saved_state/state_file.h"

namespace kvd {

struct LoadReport {
  std::uint32_t cell_count = 0;
  std::uint64_t raw_bytes = 0;                         // bytes of the sequence's sections, unpacked
  kernels::DataType k_type = kernels::DataType::kF16;  // of the saved rows
  kernels::DataType v_type = kernels::DataType::kF16;
  // True: the pool has other types than the saved rows, so the rows were converted.
  bool is_converted = false;
  std::vector<std::byte> sampler;
};

// The parts of a saved sequence that can be read without its rows.
struct SavedTokens {
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  std::vector<TokenId> cross_tokens;
  std::vector<std::byte> sampler;
};

// Checks that the file was saved with this engine's model. Error: kUnsupported, naming the
// difference.
Status CheckModel(const Engine& engine, const StateFileReader& file);

// Checks that the computed contents of the file may be combined with the results of this engine's
// numeric form. Error: kUnsupported, naming both forms.
Status CheckNumericForm(const Engine& engine, const StateFileReader& file);

// Reads the parts of a saved sequence that do not depend on its rows. Errors: those of ReadSection;
// kNoSpace (more cells than the pool has); kCorrupt (a token id outside the vocabulary, descending
// positions). REQUIRES: number < file.sequences().size().
Result<SavedTokens> ReadSavedTokens(const Engine& engine, const StateFileReader& file,
                                    std::size_t number);

// The program that has written a state.
enum class StateOrigin : std::uint8_t {
  kThisDaemon,  // the number of pristine cells in the file is trusted
  kClient,      // no cell counts as pristine
};

struct LoadOptions {
  // The number of leading cells to load; the other cells and the logits are left out. Ignored if
  // the state has no more cells, or if the model has windows or recurrent states.
  std::uint32_t cells = std::numeric_limits<std::uint32_t>::max();
  StateOrigin origin = StateOrigin::kThisDaemon;
};

// Loads the sequence `number` of the file into the empty sequence `handle`. Errors: those of
// CheckModel and CheckNumericForm; kUnsupported (only tokens were saved); kCorrupt, naming the
// section; those of SequenceImport; kCancelled. On error nothing has changed. REQUIRES: number <
// file.sequences().size(), threads > 0.
Result<LoadReport> LoadSequence(Engine& engine, const StateFileReader& file, std::size_t number,
                                SequenceHandle handle, unsigned threads,
                                WorkControl& work = Uncontrolled(),
                                const LoadOptions& options = {});

}  // namespace kvd
