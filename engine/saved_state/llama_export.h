// Writes sequences as a state file of llama.cpp, in the layout of August 2026 or of February 2025:
// one as a sequence file, or several as a session whose ids are 0, 1, … in the order given.
//
// What is written is of the moment of Open; the sequences may be decoded or dropped meanwhile. Keys
// are those of the effective positions. Layers with a sliding window have the cells in its reach in
// the layout of 2026, and all cells in that of 2025, where those that the window has dropped are
// zeros: no query reaches them. The tokens of a session are those of its sequences one after another.
//
// Threads: any one at a time. The engine outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/saved_state/llama_state_writer.h"
#include "engine/saved_state/llama_states.h"
#include "engine/saved_state/sequence_export.h"
#include "shm/error.h"

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

class LlamaExport : private LlamaRowSource {
 public:
  // Errors: kNotFound; kInvalidArgument (no sequence, one without cells, several in a sequence
  // file, a transposed q8_0, streams in the layout of 2025, fewer streams than sequences but not 1);
  // kUnsupported (a type that the model's heads cannot have, an encoded text); kCancelled. `work`
  // outlives the export.
  static Result<std::unique_ptr<LlamaExport>> Open(Engine& engine,
                                                   std::span<const SequenceHandle> handles,
                                                   const LlamaExportOptions& options,
                                                   WorkControl& work = Uncontrolled());
  LlamaExport(const LlamaExport&) = delete;
  LlamaExport& operator=(const LlamaExport&) = delete;

  std::uint64_t bytes() const { return bytes_; }  // exact
  std::uint32_t token_count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  // REQUIRES: file.size() == bytes(). Errors: kNumerical, kCancelled.
  Status Write(std::span<std::byte> file);

 private:
  // The layers of attention that are one cache of the file.
  struct Layers {
    std::vector<std::size_t> planes;         // of their keys, into planes_; those of values follow
    std::vector<std::uint32_t> first_cells;  // by sequence
  };

  LlamaExport(Engine& engine, const LlamaExportOptions& options, WorkControl& work);
  Status CheckStreams(std::size_t sequence_count) const;
  Status Add(SequenceHandle handle);
  Status MakePlan();
  // One cache, or two where some layers have a window and the layout has a cache for them.
  void GroupLayers();
  std::uint32_t FirstInWindow(const SequenceExport& sequence, const CachePlane& plane) const;
  Result<LlamaCachePlan> CellsPlan(const Layers& layers) const;
  LlamaCachePlan StatesPlan() const;
  Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) override;
  void ReadStates(LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) const;
  // Cells [begin, end) of one sequence, zeros where its window has dropped them.
  Status ReadCells(const SequenceExport& sequence, const CachePlane& plane, std::uint32_t begin,
                   std::uint32_t end, std::byte* rows) const;
  // The same of cells that are there, as the peer's matrix of `side` rows turns them.
  Status ReadRotated(const SequenceExport& sequence, const CachePlane& plane, std::uint32_t begin,
                     std::uint32_t end, std::size_t side, std::byte* rows) const;

  bool is_newer_layout() const { return options_.layout == LlamaLayout::kAugust2026; }
  kernels::DataType TypeOf(const CachePlane& plane) const {
    return (plane.side == CacheSide::kKeys ? options_.k_type : options_.v_type)
        .value_or(plane.type);
  }

  Engine& engine_;
  const LlamaExportOptions options_;
  WorkControl& work_;
  const std::vector<CachePlane> planes_;  // keys and values of a layer, by layer
  const std::vector<LlamaStateShape> states_;
  std::vector<Layers> layers_;  // by cache of attention
  std::vector<SequenceExport> sequences_;
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> output_positions_;
  LlamaStatePlan plan_;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvd
