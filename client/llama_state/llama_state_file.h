// A state file of llama.cpp as it lies in memory: a session ("ggsn", version 9: a whole context) or
// a sequence ("ggsq", versions 2 and 3), validated completely and described without a model.
//
// Two bodies share those version numbers: that of February 2025, and that of the releases which
// split a cache into streams (seen in August 2026). Nothing in a file says which it is, nor whether
// a cell has the two extra coordinates of multimodal positions; each reading is tried, and only one
// that ends where the file ends counts. Rows stay in the file: a description names their offsets.
//
// Formats: llama_context::state_write_data, llama_kv_cache::state_write and
// llama_memory_recurrent::state_write of llama.cpp; docs/decisions/0016.
//
//   session   u32 magic; u32 9; u32 tokens; i32[]; u32 bytes; architecture[];
//             2025: u32 outputs; i32[]; u64 logits; f32[]; u64 embeddings; f32[];    CACHES
//   sequence  u32 magic; u32 2 or 3; u32 tokens; i32[]; CACHES
//   CACHES    2025: CELLS [STATES];  2026: STREAMS [STREAMS] [STATES], or CELLS
//   STREAMS   u32 streams; each: u32 cells; nothing more if 0, else META DATA
//   CELLS     u32 cells; META; DATA
//   META      each cell: i32 position; u32 sequences; [i32 x, i32 y, version 3: i32 token]; i32[]
//   DATA      u32 transposed; u32 layers; K of each layer; V of each layer
//   K, V      i32 type; u64 row bytes; u8[cells * row bytes]
//   V, transposed  i32 type; u32 element bytes; u32 elements; u8[elements][cells * element bytes]
//   STATES    of a hybrid: as CELLS, not transposed, with rows for its recurrent layers alone
// States of a model whose layers are all recurrent are CELLS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/work_control.h"
#include "state_form/row_types.h"

namespace kvd {

inline constexpr std::uint32_t kLlamaSessionMagic = 0x6767736e;
inline constexpr std::uint32_t kLlamaSessionVersion = 9;
inline constexpr std::uint32_t kLlamaSequenceMagic = 0x67677371;
inline constexpr std::uint32_t kLlamaSequenceVersion = 2;
inline constexpr std::uint32_t kLlamaSequenceVersionNewest = 3;  // with the body of 2026
inline constexpr std::uint32_t kLlamaArchitectureBytesMax = 64;
// LLAMA_MAX_SEQ of llama.cpp: streams of a cache, and sequences of a session, which have the ids 0
// to 255.
inline constexpr std::uint32_t kLlamaStreamsMax = 256;
inline constexpr std::uint32_t kLlamaSequencesMax = kLlamaStreamsMax;

enum class LlamaFileKind : std::uint8_t { kSession, kSequence };
// kFebruary2025 also where both bodies are the same bytes (states alone, in a sequence file).
enum class LlamaLayout : std::uint8_t { kFebruary2025, kAugust2026 };
// "session", "February-2025", ... for messages.
const char* LlamaFileKindName(LlamaFileKind kind);
const char* LlamaLayoutName(LlamaLayout layout);

// The K or V rows of one layer, one row per cell: for a recurrent layer its convolution state or
// its recurrent state. Lies within the file.
struct LlamaRows {
  kernels::DataType type = kernels::DataType::kF32;  // f32, f16, bf16 or q8_0
  bool is_transposed = false;   // [elements][cells] in the file instead of [cells][elements]
  std::uint64_t elements = 0;   // of one row; whole blocks of the type
  std::uint64_t row_bytes = 0;  // of those elements
  std::uint64_t offset = 0;     // from the start of the file
};

struct LlamaCell {
  std::int32_t pos = 0;        // 0 to INT32_MAX - 1
  std::uint32_t first_id = 0;  // its sequences: LlamaCells::sequence_ids[first_id ..]
  std::uint32_t id_count = 0;  // 0 in a sequence file: of the file's sequence
};

// The cells of one stream of one cache, in the file's order, which need not be that of positions.
struct LlamaCells {
  std::uint32_t cache = 0;   // caches in the file's order
  std::uint32_t stream = 0;  // of that cache; 0 where there are no streams
  std::vector<LlamaCell> cells;
  std::vector<std::int32_t> sequence_ids;  // each from 0 to kLlamaSequencesMax - 1
  std::uint32_t declared_layers = 0;       // at least k.size()
  // By layers that have rows: as many K as V.
  std::vector<LlamaRows> k;
  std::vector<LlamaRows> v;
};

// What a description's offsets count floats of.
struct LlamaFloats {
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t count = 0;
};

struct LlamaStateFile {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kFebruary2025;
  std::vector<TokenId> tokens;  // any numbers; of the vocabulary's range is for the model to say
  std::string architecture;     // of a session: printable ASCII; else empty
  // Of a session of 2025: rows of logits and embeddings, and whose rows they are.
  std::vector<std::int32_t> output_positions;
  LlamaFloats logits;
  LlamaFloats embeddings;
  std::uint32_t cache_count = 0;
  std::vector<LlamaCells> parts;  // of all caches; streams without cells are left out
};

// Reads the whole description, in steps that are linear in the file's bytes. Allocates in proportion
// to the bytes that are really there. Errors, each naming the field, where it is (cache, stream,
// cell, layer) and its byte: kCorrupt; kUnsupported (another version, a type that is no cell's type,
// a cell of an image, the id of a sequence beyond kLlamaSequencesMax); kCancelled.
Result<LlamaStateFile> ReadLlamaStateFile(std::span<const std::byte> file,
                                          WorkControl& work = Uncontrolled());

}  // namespace kvd
