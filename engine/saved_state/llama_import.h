// Brings a sequence of a llama.cpp state file into an empty sequence: checked against the model
// (layers, widths, types), converted to the pool's types, committed at once or not at all.
//
// What such a file cannot say is asked for or refused: which of several sequences of a session, and
// the tokens of sequences that it lists none for. Its cells are not counted as computed by this
// model: they are never shared with other prompts (docs/decisions/0016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "engine/saved_state/llama_sequence.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

struct LlamaImportOptions {
  std::int32_t sequence_id = -1;  // of a session; -1: the only one that it has
  // llama.cpp of 2026 rotates the heads of quantised caches by Hadamard's matrix before it stores
  // them, and does not say so in the file. True: the file is of a build (or of a run with
  // LLAMA_ATTN_ROT_DISABLE) that does not.
  bool is_unrotated = false;
};

struct LlamaImported {
  std::uint32_t cell_count = 0;
  std::uint32_t tokens_left_out = 0;  // of the file: behind the last cell
  std::uint32_t cells_left_out = 0;   // of the file: behind the last token
  bool is_converted = false;          // K or V had another type than the pool's
};

// `index`: of ReadLlamaStateFile(bytes). Errors, nothing has changed then: kInvalidArgument (the file is
// of another model, with what differs; no such sequence; tokens and cells that do not fit
// together), kUnsupported, kNumerical, kNoSpace, kCancelled, and SequenceImport's.
Result<LlamaImported> ImportLlamaSequence(Engine& engine, std::span<const std::byte> bytes,
                                          const LlamaSequenceIndex& index,
                                          SequenceHandle destination,
                                          const LlamaImportOptions& options,
                                          WorkControl& work = Uncontrolled());

}  // namespace kvd
