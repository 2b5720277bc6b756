// Loading: one sequence of a saved state into an empty sequence.
//
// All of it is checked (structure, sums, finiteness) before the sequence changes, in one commit.
// Other sequences go on meanwhile. Any thread, for as long as it takes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/engine.h"
#include "engine/saved_state/state_file_reader.h"
#include "shm/work_control.h"

namespace kvd {

struct LoadReport {
  std::uint32_t cell_count = 0;
  std::uint64_t raw_bytes = 0;                         // of the sequence's sections, not packed
  kernels::DataType k_type = kernels::DataType::kF16;  // of the saved rows
  kernels::DataType v_type = kernels::DataType::kF16;
  bool is_converted = false;  // the pool has other types
  std::vector<std::byte> sampler;
};

// What of a sequence can be read without its rows.
struct SavedTokens {
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  std::vector<TokenId> cross_tokens;
  std::vector<std::byte> sampler;
};

// Whether the file is of this engine's model. Error: kUnsupported, naming what differs.
Status CheckModel(const Engine& engine, const StateFileReader& file);

// Whether what the file holds beside tokens may stand beside what this engine computes. Error:
// kUnsupported, naming both forms.
Status CheckNumericForm(const Engine& engine, const StateFileReader& file);

// Errors: those of ReadSection; kNoSpace (more cells than the pool has); kCorrupt (an id that the
// vocabulary does not have, positions that fall). REQUIRES: number < file.sequences().size().
Result<SavedTokens> ReadSavedTokens(const Engine& engine, const StateFileReader& file,
                                    std::size_t number);

// Who has written a state.
enum class StateOrigin : std::uint8_t {
  kThisDaemon,  // what it says of its cells is believed
  kClient,      // none of its cells counts as computed by this model
};

struct LoadOptions {
  // The first cells alone, if there are more and the model keeps neither windows nor states; no
  // logits then.
  std::uint32_t cells = std::numeric_limits<std::uint32_t>::max();
  StateOrigin origin = StateOrigin::kThisDaemon;
};

// Errors: CheckModel's; CheckNumericForm's; kUnsupported (tokens alone were saved); kCorrupt, naming the
// section; those of SequenceImport; kCancelled. Nothing has changed then. REQUIRES: number <
// file.sequences().size(), threads > 0.
Result<LoadReport> LoadSequence(Engine& engine, const StateFileReader& file, std::size_t number,
                                SequenceHandle handle, unsigned threads,
                                WorkControl& work = Uncontrolled(),
                                const LoadOptions& options = {});

}  // namespace kvd
