// Writes state files of llama.cpp in either layout (see llama_state_file.h): the exact size first,
// then every byte in order.
//
// A plan is a plain description whose spans must outlive the call. Rows are asked for, many cells
// of one layer at a time; of a transposed layer all of them are held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/llama_state/llama_state_file.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "state_form/row_types.h"

namespace kvd {

struct LlamaRowShape {
  kernels::DataType type = kernels::DataType::kF16;  // f32, f16, bf16 or q8_0
  std::uint64_t elements = 0;                        // of one cell; whole blocks of the type
};

// One cache: the cells of attention layers, or the states of recurrent ones. A hybrid model has the
// first, then the second. In the layout of 2026 layers of attention with a window, if the model has
// any, are a cache of their own behind that of the others.
struct LlamaCachePlan {
  // In a sequence file id_count is 1 in a cache with streams and 0 in another one; in a session it
  // is at least 1.
  std::vector<LlamaCell> cells;
  std::vector<std::int32_t> sequence_ids;
  // How many of the cells each stream has, in the order of `cells`; empty: the cache has no streams,
  // as in the layout of 2025 and as states in both.
  std::vector<std::uint32_t> stream_cells;
  bool has_coordinates = false;  // with streams: each cell has those of its position in an image
  bool is_v_transposed = false;  // llama.cpp without flash attention wants it so; f32, f16, bf16
  std::uint32_t declared_layers = 0;  // k.size(), or more where only some layers are recurrent
  std::vector<LlamaRowShape> k;       // by layers that have rows
  std::vector<LlamaRowShape> v;
};

struct LlamaStatePlan {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kAugust2026;
  std::span<const TokenId> tokens;
  std::vector<LlamaCachePlan> caches;
  std::string architecture;  // of a session
  // Of a session in the layout of 2025.
  std::span<const std::int32_t> output_positions;
  std::span<const float> logits;
  std::span<const float> embeddings;
};

enum class LlamaRowKind : std::uint8_t { kK, kV };

// Where the rows come from. Given by whoever has the cells.
class LlamaRowSource {
 public:
  virtual ~LlamaRowSource() = default;
  // Writes the rows of the plan's cells [first_cell, first_cell + cell_count) of one layer, in the
  // plan's type: rows.size() == cell_count * bytes of one. `layer`: index into the plan's k and v.
  virtual Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                          std::uint32_t first_cell, std::uint32_t cell_count,
                          std::span<std::byte> rows) = 0;
};

// The file's size. Errors: kInvalidArgument, naming what the layout cannot hold (more than 2^32 - 1
// of something, rows that are no whole blocks, a quantised V transposed, a name too long, more than
// 2^63 bytes, streams in that of 2025, outputs in that of 2026).
Result<std::uint64_t> LlamaStateBytes(const LlamaStatePlan& plan);

// Where the bytes go. Implemented by the caller.
class LlamaSink {
 public:
  virtual ~LlamaSink() = default;
  // Once, before the first byte of a file of that size; again where the file is made anew.
  virtual Status Begin(std::uint64_t file_bytes) = 0;
  virtual Status Write(std::span<const std::byte> bytes) = 0;
};

// Into memory. Begin: kNoSpace, with both numbers, where that is smaller than the file.
class LlamaMemorySink final : public LlamaSink {
 public:
  explicit LlamaMemorySink(std::span<std::byte> room) : room_(room) {}
  Status Begin(std::uint64_t file_bytes) override;
  Status Write(std::span<const std::byte> bytes) override;

 private:
  std::span<std::byte> room_;
  std::size_t written_ = 0;
};

// Writes the file. Errors: LlamaStateBytes', the source's and the sink's.
Status WriteLlamaState(const LlamaStatePlan& plan, LlamaRowSource& source, LlamaSink& sink);

}  // namespace kvd
