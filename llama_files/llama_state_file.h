// State files of llama.cpp in memory, and errors about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "state_layout/cached_rows.h"

namespace kvd {

// Errors about states of llama.cpp.

inline std::unexpected<Error> FailLlamaState(Code code, std::string_view why) {
  return Fail(code, "llama.cpp state: ", why);
}
inline std::unexpected<Error> InvalidLlamaState(std::string_view why) {
  return FailLlamaState(Code::kInvalidArgument, why);
}

// LlamaStateFile describes the contents of a state file of llama.cpp whose bytes are in memory. The
// file is either a session file ("ggsn", version 9: a whole context) or a sequence file ("ggsq",
// version 2 or 3). ReadLlamaStateFile validates the whole description and does not need the model.
//
// Two layouts have the same version numbers: the layout of February 2025, and the layout of the
// releases that split a cache into streams (seen in August 2026). A file records neither its layout
// nor whether its cells have the two extra coordinates of multimodal positions. ReadLlamaStateFile
// tries each combination of layout and coordinates and accepts a reading that ends exactly at the
// end of the file. A LlamaStateFile contains the offsets of the file's rows, not the rows.
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
//   DATA      u32 transposed; u32 layers; K of each layer; V of each layer (2026: no V if the model
//             caches latent rows, of which the values are a part)
//   K, V      i32 type; u64 row bytes; u8[cells * row bytes]
//   V, transposed  i32 type; u32 element bytes; u32 elements; u8[elements][cells * element bytes]
//   STATES    of a hybrid: as CELLS, not transposed, with rows for its recurrent layers alone
// States of a model whose layers are all recurrent are CELLS.
//
// llama-server packs the tokens of its slot files since August 2026: the list of a sequence file is
// then i32 -1; u32 1; u32 count; i32 tokens[count]; u32 0 (the number of images), and the number in
// front of the list counts all of these words (server_tokens::serialize). ReadLlamaStateFile
// returns the tokens in it.

inline constexpr std::uint32_t kLlamaSessionMagic = 0x6767736e;
inline constexpr std::uint32_t kLlamaSessionVersion = 9;
inline constexpr std::uint32_t kLlamaSequenceMagic = 0x67677371;
inline constexpr std::uint32_t kLlamaSequenceVersion = 2;
// The newest version of sequence files, which has the layout of 2026.
inline constexpr std::uint32_t kLlamaSequenceVersionNewest = 3;
inline constexpr TokenId kLlamaPackedVersion = 1;  // of a packed list of tokens
inline constexpr std::uint32_t kLlamaArchitectureBytesMax = 64;
// LLAMA_MAX_SEQ of llama.cpp: the largest number of streams of a cache and of sequences of a
// session. Sequence ids are 0 to 255.
inline constexpr std::uint32_t kLlamaStreamsMax = 256;
inline constexpr std::uint32_t kLlamaSequencesMax = kLlamaStreamsMax;

enum class LlamaFileKind : std::uint8_t { kSession, kSequence };
// The layout of a file. If the bytes are the same in both layouts (a sequence file with only
// recurrent states), the layout is kFebruary2025.
enum class LlamaLayout : std::uint8_t { kFebruary2025, kAugust2026 };
// Names for messages: "session", "February-2025", ...
const char* LlamaFileKindName(LlamaFileKind kind);
const char* LlamaLayoutName(LlamaLayout layout);

// The K or V rows of one layer, one row per cell. For a recurrent layer, K is its convolution state
// and V its recurrent state. All bytes that a LlamaRows describes are inside the file.
struct LlamaRows {
  // Type of the rows: f32, f16, bf16, q8_0 or q4_0.
  kernels::DataType type = kernels::DataType::kF32;
  // True: the rows are stored as [elements][cells] instead of [cells][elements].
  bool is_transposed = false;
  std::uint64_t elements = 0;   // number of elements of one row; a multiple of the type's block
  std::uint64_t row_bytes = 0;  // number of bytes of one row
  std::uint64_t offset = 0;     // from the start of the file
};

struct LlamaCell {
  std::int32_t pos = 0;  // position of the cell: 0 to INT32_MAX - 1
  // The cell's sequence ids begin at LlamaCells::sequence_ids[first_id].
  std::uint32_t first_id = 0;
  // Number of the cell's sequence ids; 0 in a sequence file, which has only one sequence.
  std::uint32_t id_count = 0;
};

// The cells of one stream of one cache, in the file's order, which may differ from the order of
// positions.
struct LlamaCells {
  std::uint32_t cache = 0;   // index of the cache in the file
  std::uint32_t stream = 0;  // index of the stream within the cache; 0 if the cache has no streams
  std::vector<LlamaCell> cells;
  // Sequence ids of all cells; each id is 0 to kLlamaSequencesMax - 1.
  std::vector<std::int32_t> sequence_ids;
  // Number of layers that the file declares for the cache; at least k.size().
  std::uint32_t declared_layers = 0;
  // `k` and `v` have one element for each layer that has rows, or `v` is empty.
  std::vector<LlamaRows> k;
  std::vector<LlamaRows> v;
};

// A range of floats in the file.
struct LlamaFloats {
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t count = 0;
};

struct LlamaStateFile {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kFebruary2025;
  // The token list; the reader accepts any token ids, and the caller checks them against the
  // vocabulary.
  std::vector<TokenId> tokens;
  // Architecture that a session file names, printable ASCII; empty for a sequence file.
  std::string architecture;
  // Only in session files of 2025: rows of logits and embeddings, and the positions to which the
  // rows belong.
  std::vector<std::int32_t> output_positions;
  LlamaFloats logits;
  LlamaFloats embeddings;
  std::uint32_t cache_count = 0;
  std::vector<LlamaCells> parts;  // the cells of all caches; streams without cells are left out
};

// Reads and validates the whole description. The work and the allocations of ReadLlamaStateFile are
// proportional to the file's bytes. Errors, each naming the field, its place (cache, stream, cell,
// layer) and its byte offset: kCorrupt; kUnsupported (another version, a type that cells cannot
// have, a cell of an image, a sequence id of kLlamaSequencesMax or more); kCancelled.
Result<LlamaStateFile> ReadLlamaStateFile(std::span<const std::byte> file,
                                          WorkControl& work = Uncontrolled());

}  // namespace kvd
