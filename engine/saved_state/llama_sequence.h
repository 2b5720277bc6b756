// One sequence of a llama.cpp state file: its cells in the order of their positions, with their
// tokens, in every cache of the file.
//
// A file lists tokens once. They are those of its only sequence, or of all sequences one after
// another in the order of their ids if the numbers agree (our own sessions), else of the sequence
// with the lowest id.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/saved_state/llama_state_file.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// What the model keeps of a sequence.
struct LlamaCacheKinds {
  bool has_attention = false;
  bool has_states = false;
  bool has_windows = false;  // attention layers with one, and others without
};

struct LlamaSequence {
  struct Cache {
    const LlamaCells* part = nullptr;    // of the file's description, which outlives this
    std::uint32_t first_cell = 0;        // ordinal of the first cell that the cache has
    std::vector<std::uint32_t> indices;  // into part->cells, from first_cell on
  };

  std::vector<TokenId> tokens;
  std::vector<Pos> positions;  // ascending, as many as tokens; at least one
  // Of attention: none, one of all layers, or one of the layers without and one of those with a
  // window.
  std::vector<Cache> caches;
  const LlamaCells* states = nullptr;  // null: the model has none
  std::uint32_t state_index = 0;       // of its cell
  std::uint32_t tokens_left_out = 0;
  std::uint32_t cells_left_out = 0;
};

// The sequences of a session, ascending; {0} of a sequence file.
std::vector<std::int32_t> LlamaSequenceIds(const LlamaStateFile& file);

// Whether the file has as many caches as the model. Errors: kInvalidArgument.
Status CheckLlamaCaches(const LlamaStateFile& file, const LlamaCacheKinds& kinds);

// `id` -1: the only one. REQUIRES: CheckLlamaCaches. Errors: kInvalidArgument, kUnsupported, saying what does not fit.
Result<LlamaSequence> SelectLlamaSequence(const LlamaStateFile& file, std::int32_t id,
                                          const LlamaCacheKinds& kinds);

}  // namespace kvd
