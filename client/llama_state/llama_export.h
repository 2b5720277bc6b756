// Writes sequences as a state file of llama.cpp, in the layout of August 2026 or of February 2025:
// one as a sequence file, or several as a session whose ids are 0, 1, … in the order given.
//
// The sequences come as a StateImage. Keys are those of the effective positions. Layers with a
// sliding window have the cells in its reach in the layout of 2026, and all cells in that of 2025,
// where those that the window has dropped are zeros: no query reaches them. The tokens of a session
// are those of its sequences one after another.
//
// Threads: any one at a time. Model and image outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/llama_state/llama_state_writer.h"
#include "client/llama_state/state_image.h"
#include "shm/error.h"
#include "state_form/state_model.h"

namespace kvd {

struct LlamaExportOptions {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kAugust2026;
  std::optional<kernels::DataType> k_type{};  // absent: the pool's
  std::optional<kernels::DataType> v_type{};
  bool is_v_transposed = false;  // what llama.cpp without flash attention reads
  // Of the layout of 2026: as many streams as the cache that will read the file has. That is 1
  // where its sequences share one buffer, else its number of sequences.
  std::uint32_t streams = 1;
  // Quantised heads are not multiplied by Hadamard's matrix (llama_rotation.h), for llama.cpp with
  // LLAMA_ATTN_ROT_DISABLE. In the layout of 2025 they never are.
  bool is_unrotated = false;
};

// Whether the options can be met for the model's files. Errors: kInvalidArgument (streams in the
// layout of 2025 or out of range), kUnsupported (a type that the model's heads cannot have).
Status CheckLlamaExport(const StateModel& model, const LlamaExportOptions& options);

// The types in which rows are to be exported for a file of these options: those of the file, but
// for rows that are turned (llama_rotation.h), which are wanted as they are.
struct LlamaRowTypes {
  std::optional<kernels::DataType> k{};  // absent: the pool's
  std::optional<kernels::DataType> v{};
};
LlamaRowTypes RowTypesFor(const StateModel& model, const LlamaExportOptions& options);

class LlamaExport : private LlamaRowSource {
 public:
  // An outline serves for bytes() alone. Errors: CheckLlamaExport's; kInvalidArgument (no sequence,
  // one without cells, several in a sequence file, a transposed q8_0, fewer streams than sequences
  // but not 1); kUnsupported (an encoded text).
  static Result<std::unique_ptr<LlamaExport>> Open(const StateModel& model, const StateImage& image,
                                                   const LlamaExportOptions& options);
  LlamaExport(const LlamaExport&) = delete;
  LlamaExport& operator=(const LlamaExport&) = delete;

  std::uint64_t bytes() const { return bytes_; }  // exact
  // REQUIRES: the image is no outline. Errors: kNumerical, the sink's.
  Status Write(LlamaSink& sink);

 private:
  using Sequence = StateImage::Sequence;
  // The layers of attention that are one cache of the file.
  struct Layers {
    std::vector<std::size_t> planes;  // of their keys, into the model's; those of values follow
    std::vector<std::uint32_t> first_cells;  // by sequence
  };

  LlamaExport(const StateModel& model, const StateImage& image, const LlamaExportOptions& options)
      : model_(model), image_(image), options_(options) {}
  Status CheckSequences() const;
  Status MakePlan();
  // One cache, or two where some layers have a window and the layout has a cache for them.
  void GroupLayers();
  std::uint32_t FirstInWindow(const Sequence& sequence, std::size_t plane) const;
  LlamaCachePlan CellsPlan(const Layers& layers) const;
  LlamaCachePlan StatesPlan() const;
  Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) override;
  void ReadStates(LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) const;
  // Cells [begin, end) of one sequence, zeros where its window has dropped them.
  Status ReadCells(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                   std::uint32_t end, std::byte* rows) const;
  // The same of cells that are there, converted, and turned by the peer's matrix of `side` rows; 0:
  // not turned.
  Status ReadConverted(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                       std::uint32_t end, std::size_t side, std::byte* rows) const;

  bool is_newer_layout() const { return options_.layout == LlamaLayout::kAugust2026; }
  const StateModel& model_;
  const StateImage& image_;
  const LlamaExportOptions options_;
  std::vector<Layers> layers_;  // by cache of attention
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> output_positions_;
  std::vector<float> logits_;
  LlamaStatePlan plan_;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvd
