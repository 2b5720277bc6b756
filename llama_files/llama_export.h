// LlamaExport: writes sequences as a state file of llama.cpp, in the layout of August 2026 or of
// February 2025: one sequence as a sequence file, or several as a session whose ids are 0, 1, … in
// the given order.
//
// LlamaExport reads the sequences from a StateImage. LlamaExport writes keys as rotated for their
// effective positions. In the layout of 2026, a layer with a sliding window has only the cells to
// which the next token can attend. In the layout of 2025, a layer with a sliding window has all
// cells; the rows of cells that the window has dropped are zeros, because no query attends to these
// cells. The token list of a session file is the concatenation of the sequences' tokens.
//
// A LlamaExport is used by one thread at a time. The model and the image outlive the LlamaExport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "llama_files/llama_state_writer.h"
#include "llama_files/state_image.h"
#include "state_layout/state_model.h"

namespace kvd {

struct LlamaExportOptions {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kAugust2026;
  // Type of the K rows in the file; nullopt: the pool's type.
  std::optional<kernels::DataType> k_type{};
  std::optional<kernels::DataType> v_type{};
  bool is_v_transposed = false;  // true: V is written for llama.cpp without flash attention
  // Only for the layout of 2026: the number of streams of the llama.cpp cache that will read the
  // file. `streams` is 1 if the sequences of that cache share one buffer, else the cache's number
  // of sequences.
  std::uint32_t streams = 1;
  // True if quantised heads are not multiplied by Hadamard's matrix (llama_rows.h), as in
  // llama.cpp with LLAMA_ATTN_ROT_DISABLE. In the layout of 2025 heads are never multiplied.
  bool is_unrotated = false;
};

// Checks the options for the model. Errors: kInvalidArgument (streams in the layout of 2025 or out
// of range), kUnsupported (a type that the model's heads cannot have).
Status CheckLlamaExport(const StateModel& model, const LlamaExportOptions& options);

// The types in which the daemon should export rows for a file with these options: the file's types,
// except for rows that will be rotated (llama_rows.h), which are exported in the pool's type.
struct LlamaRowTypes {
  std::optional<kernels::DataType> k{};  // type of the exported K rows; nullopt: the pool's type
  std::optional<kernels::DataType> v{};
};
LlamaRowTypes RowTypesFor(const StateModel& model, const LlamaExportOptions& options);

class LlamaExport : private LlamaRowSource {
 public:
  // `image` may be an outline if only bytes() is called. Errors: those of CheckLlamaExport;
  // kInvalidArgument (no sequence, a sequence without cells, several sequences in a sequence file,
  // a transposed V of type q8_0, several streams but fewer streams than sequences); kUnsupported (a
  // sequence with an encoded text).
  static Result<std::unique_ptr<LlamaExport>> Open(const StateModel& model, const StateImage& image,
                                                   const LlamaExportOptions& options);
  LlamaExport(const LlamaExport&) = delete;
  LlamaExport& operator=(const LlamaExport&) = delete;

  std::uint64_t bytes() const { return bytes_; }  // the exact size of the file
  // Writes the file. REQUIRES: the image is not an outline. Errors: kNumerical, those of the sink.
  Status Write(LlamaSink& sink);

 private:
  using Sequence = StateImage::Sequence;
  // The attention layers that form one cache of the file.
  struct Layers {
    // Indices of the key planes in the model's planes. The plane of a layer's values, if it has
    // one, follows its plane of keys.
    std::vector<std::size_t> planes;
    // The index of the first cell that the file has of each sequence, indexed by sequence.
    std::vector<std::uint32_t> first_cells;
  };

  LlamaExport(const StateModel& model, const StateImage& image, const LlamaExportOptions& options)
      : model_(model), image_(image), options_(options) {}
  Status CheckSequences() const;
  Status MakePlan();
  // Fills layers_ with one cache, or with two if some layers have a window and the layout has a
  // separate cache for layers with a window.
  void GroupLayers();
  std::uint32_t FirstInWindow(const Sequence& sequence, std::size_t plane) const;
  LlamaCachePlan CellsPlan(const Layers& layers) const;
  LlamaCachePlan StatesPlan() const;
  Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) override;
  void ReadStates(LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) const;
  // Reads the rows of cells [begin, end) of one sequence; rows of cells that the window has dropped
  // are zeros.
  Status ReadCells(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                   std::uint32_t end, std::byte* rows) const;
  // Reads the rows of cells [begin, end), which must be present, and converts them to the file's
  // type. `side`: side of llama.cpp's matrix that rotates the rows; 0: the rows are not rotated.
  Status ReadConverted(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                       std::uint32_t end, std::size_t side, std::byte* rows) const;

  bool is_newer_layout() const { return options_.layout == LlamaLayout::kAugust2026; }
  const StateModel& model_;
  const StateImage& image_;
  const LlamaExportOptions options_;
  std::vector<Layers> layers_;  // one Layers for each cache of attention layers
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> output_positions_;
  std::vector<float> logits_;
  LlamaStatePlan plan_;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvd
