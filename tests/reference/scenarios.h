// The scripts of the project's own golden folders: decoding steps and edits, with random tokens
// from a fixed seed.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/golden/golden_case.h"

namespace kvd::reference {

// The kind of a model's memory, which determines the edits in its scripts: kCells: all edits;
// kWindows: all edits except divisions; kStates: only edits of whole sequences, because recurrent
// states cannot be cut; kEncodedText: encoded texts and copies; kNone: embeddings of texts.
enum class MemoryKind : std::uint8_t { kCells, kWindows, kStates, kEncodedText, kNone };

// Returns the scripts with expect_offset and expect_rows set. Equal arguments give equal scripts.
// `embedding_size`: elements of an expected row of kNone; the other rows have `vocab_size`.
std::vector<golden::Scenario> MakeScenarios(MemoryKind kind, std::uint32_t vocab_size,
                                            std::uint32_t embedding_size);

}  // namespace kvd::reference
