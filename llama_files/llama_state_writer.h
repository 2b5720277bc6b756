// Writes state files of llama.cpp in either layout (llama_state_file.h): computes the exact size
// first, then writes every byte in order.
//
// A LlamaStatePlan is a plain description of a file; its spans must outlive the call. The writer
// requests the rows of many cells of one layer at a time. For a layer with a transposed V, the
// writer holds all rows of the layer in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "llama_files/llama_state_file.h"
#include "state_layout/cached_rows.h"

namespace kvd {

struct LlamaRowShape {
  // Type of the rows: f32, f16, bf16, q8_0 or q4_0.
  kernels::DataType type = kernels::DataType::kF16;
  std::uint64_t elements = 0;  // number of elements of one cell; a multiple of the type's block
};

// One cache: the cells of attention layers, or the states of recurrent layers. A hybrid model has
// the cache of attention layers, then the cache of recurrent layers. In the layout of 2026,
// attention layers with a window have a separate cache, after the cache of the other attention
// layers.
struct LlamaCachePlan {
  // In a sequence file, LlamaCell::id_count is 1 if the cache has streams, else 0. In a session
  // file, LlamaCell::id_count is at least 1.
  std::vector<LlamaCell> cells;
  std::vector<std::int32_t> sequence_ids;
  // The number of cells of each stream, in the order of `cells`. `stream_cells` is empty if the
  // cache has no streams; caches in the layout of 2025 and caches of recurrent states in both
  // layouts have no streams.
  std::vector<std::uint32_t> stream_cells;
  // Each cell has image coordinates; true only if the cache has streams.
  bool has_coordinates = false;
  // V is stored for llama.cpp without flash attention; only for the types f32, f16 and bf16.
  bool is_v_transposed = false;
  // Number of layers that the file declares: k.size(), or more if only some layers are recurrent.
  std::uint32_t declared_layers = 0;
  std::vector<LlamaRowShape> k;  // K rows: one shape for each layer that has rows
  // V rows: one shape for each element of `k`; empty if the model caches latent rows.
  std::vector<LlamaRowShape> v;
};

struct LlamaStatePlan {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kAugust2026;
  std::span<const TokenId> tokens;
  std::vector<LlamaCachePlan> caches;
  std::string architecture;  // name of the model's architecture, written to session files only
  // Positions of the rows of logits; only for a session file in the layout of 2025.
  std::span<const std::int32_t> output_positions;
  std::span<const float> logits;
  std::span<const float> embeddings;
};

enum class LlamaRowKind : std::uint8_t { kK, kV };

// A LlamaRowSource, which the caller implements, provides the rows of the cells.
class LlamaRowSource {
 public:
  virtual ~LlamaRowSource() = default;
  // Writes the rows of cells [first_cell, first_cell + cell_count) of one layer to `rows`, in the
  // plan's type: rows.size() == cell_count * bytes of one row. `layer`: index into the plan's k or
  // v.
  virtual Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                          std::uint32_t first_cell, std::uint32_t cell_count,
                          std::span<std::byte> rows) = 0;
};

// Returns the size of the file that `plan` describes. Errors: kInvalidArgument, naming the property
// that the layout cannot represent (a count above 2^32 - 1, rows that are not whole blocks, a
// quantised transposed V, a name that is too long, more than 2^63 bytes, streams in the layout of
// 2025, outputs in the layout of 2026).
Result<std::uint64_t> LlamaStateBytes(const LlamaStatePlan& plan);

// A LlamaSink, which the caller implements, receives the file's bytes.
class LlamaSink {
 public:
  virtual ~LlamaSink() = default;
  // The writer calls Begin before the first byte of a file of `file_bytes` bytes, and again if it
  // writes the file again from its beginning.
  virtual Status Begin(std::uint64_t file_bytes) = 0;
  virtual Status Write(std::span<const std::byte> bytes) = 0;
};

// A LlamaMemorySink writes the file into memory. Begin fails with kNoSpace if the memory is smaller
// than the file; the message has both sizes.
class LlamaMemorySink final : public LlamaSink {
 public:
  explicit LlamaMemorySink(std::span<std::byte> room) : room_(room) {}
  Status Begin(std::uint64_t file_bytes) override;
  Status Write(std::span<const std::byte> bytes) override;

 private:
  std::span<std::byte> room_;
  std::size_t written_ = 0;
};

// Writes the file that `plan` describes to `sink`. Errors: those of LlamaStateBytes, the source and
// the sink.
Status WriteLlamaState(const LlamaStatePlan& plan, LlamaRowSource& source, LlamaSink& sink);

}  // namespace kvd
