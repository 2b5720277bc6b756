// One sequence of a llama.cpp state file: its cells in the order of their positions, with their
// tokens, in every cache of the file.
//
// A file lists tokens once. They are those of its only sequence, or of all sequences one after
// another in the order of their ids if the numbers agree (our own sessions), else of the sequence
// with the lowest id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/llama_state/llama_state_file.h"
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

// Which cells belong to which sequence of a file. Made in one pass over the file's description,
// which outlives it; any thread.
class LlamaSequenceIndex {
 public:
  // Errors: kCancelled.
  static Result<LlamaSequenceIndex> Create(const LlamaStateFile& file,
                                           WorkControl& work = Uncontrolled());

  const LlamaStateFile& file() const { return *file_; }
  // The sequences of a session, ascending; {0} of a sequence file.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  bool Contains(std::int32_t id) const;
  // The sequence's cells of file().parts[part], in the file's order; indices into its cells.
  std::span<const std::uint32_t> CellsOf(std::size_t part, std::int32_t id) const;
  // Of the first cache: how many cells the sequence has, and the position behind its last one; both
  // 0 where it has none.
  struct Extent {
    std::size_t cell_count = 0;
    std::size_t end_pos = 0;
  };
  const Extent& ExtentOf(std::int32_t id) const { return extents_[static_cast<std::size_t>(id)]; }

 private:
  explicit LlamaSequenceIndex(const LlamaStateFile& file) : file_(&file) {}
  Status AddPart(const LlamaCells& part, WorkMeter& meter);
  template <class Visit>  // visit(id, cell) for each cell of each sequence
  Status VisitCells(const LlamaCells& part, WorkMeter& meter, const Visit& visit) const;

  const LlamaStateFile* file_;
  std::vector<std::int32_t> ids_;
  std::vector<Extent> extents_;  // by id
  // Of each part: the cells of sequence id are cells[begins[id], begins[id + 1]).
  struct Part {
    std::vector<std::size_t> begins;
    std::vector<std::uint32_t> cells;
  };
  std::vector<Part> parts_;
};

// Whether the file has as many caches as the model. Errors: kInvalidArgument.
Status CheckLlamaCaches(const LlamaStateFile& file, const LlamaCacheKinds& kinds);

// `id` -1: the only one. Steps are linear in the sequence's cells and the file's streams. REQUIRES:
// CheckLlamaCaches. Errors: kInvalidArgument, kUnsupported, saying what does not fit; kCancelled.
Result<LlamaSequence> SelectLlamaSequence(const LlamaSequenceIndex& index, std::int32_t id,
                                          const LlamaCacheKinds& kinds,
                                          WorkControl& work = Uncontrolled());

}  // namespace kvd
