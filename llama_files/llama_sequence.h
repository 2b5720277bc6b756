// LlamaSequence: one sequence of a llama.cpp state file: its cells ordered by position, with their
// tokens, in every cache of the file.
//
// A llama.cpp state file has one list of tokens. If the file has one sequence, the list of tokens
// holds the tokens of this sequence. If the file has several sequences and as many tokens as cells
// (as in session files that kvd writes), the list of tokens holds the tokens of all sequences,
// concatenated in the order of the sequence ids. If the file has several sequences and another
// number of tokens than cells, the list of tokens holds the tokens of the sequence with the lowest
// id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "llama_files/llama_state_file.h"

namespace kvd {

// The kinds of caches that the model has.
struct LlamaCacheKinds {
  bool has_attention = false;
  bool has_states = false;
  // True: some attention layers have a window, and other attention layers have none.
  bool has_windows = false;
};

struct LlamaSequence {
  struct Cache {
    // The cells of the cache, a part of the file's description, which outlives the LlamaSequence.
    const LlamaCells* part = nullptr;
    // Index, within the sequence, of the first cell that the cache has.
    std::uint32_t first_cell = 0;
    // Indices into part->cells of the sequence's cells from first_cell on.
    std::vector<std::uint32_t> indices;
  };

  std::vector<TokenId> tokens;
  // Positions of the tokens in ascending order, one position for each token; at least one.
  std::vector<Pos> positions;
  // Caches of attention layers: no cache; one cache with all layers; or two caches, one with the
  // layers without a window and one with the layers that have a window.
  std::vector<Cache> caches;
  // The recurrent states of the file; null: the model has no recurrent state.
  const LlamaCells* states = nullptr;
  std::uint32_t state_index = 0;  // index of the sequence's cell in states->cells
  std::uint32_t tokens_left_out = 0;
  std::uint32_t cells_left_out = 0;
};

// An index of the cells of each sequence of a file. Create builds the index in one pass over the
// file's description, which outlives the index. An index may be used by any number of threads.
class LlamaSequenceIndex {
 public:
  // Errors: kCancelled.
  static Result<LlamaSequenceIndex> Create(const LlamaStateFile& file,
                                           WorkControl& work = Uncontrolled());

  const LlamaStateFile& file() const { return *file_; }
  // Ascending ids of a session's sequences; {0} for a sequence file.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  bool Contains(std::int32_t id) const;
  // Returns the sequence's cells in file().parts[part], in the file's order, as indices into the
  // part's cells.
  std::span<const std::uint32_t> CellsOf(std::size_t part, std::int32_t id) const;
  // The sequence's number of cells in the first cache, and the position after the last of these
  // cells; both numbers are 0 if the sequence has no cells in the first cache.
  struct Extent {
    std::size_t cell_count = 0;
    std::size_t end_pos = 0;
  };
  const Extent& ExtentOf(std::int32_t id) const { return extents_[static_cast<std::size_t>(id)]; }

 private:
  explicit LlamaSequenceIndex(const LlamaStateFile& file) : file_(&file) {}
  Status AddPart(const LlamaCells& part, WorkMeter& meter);
  template <class Visit>  // Calls visit(id, cell) for each cell of each sequence of `part`.
  Status VisitCells(const LlamaCells& part, WorkMeter& meter, const Visit& visit) const;

  const LlamaStateFile* file_;
  std::vector<std::int32_t> ids_;
  std::vector<Extent> extents_;  // the Extent of each sequence, indexed by sequence id
  // For each part: the cells of sequence `id` are cells[begins[id], begins[id + 1]).
  struct Part {
    std::vector<std::size_t> begins;
    std::vector<std::uint32_t> cells;
  };
  std::vector<Part> parts_;
};

// Checks that the file has as many caches as the model. Errors: kInvalidArgument.
Status CheckLlamaCaches(const LlamaStateFile& file, const LlamaCacheKinds& kinds);

// Selects the sequence `id`; -1: the file's only sequence. The work of SelectLlamaSequence is
// linear in the number of the sequence's cells and of the file's streams. Errors: kInvalidArgument,
// kUnsupported (the message names the mismatch), kCancelled. REQUIRES: CheckLlamaCaches succeeded.
Result<LlamaSequence> SelectLlamaSequence(const LlamaSequenceIndex& index, std::int32_t id,
                                          const LlamaCacheKinds& kinds,
                                          WorkControl& work = Uncontrolled());

}  // namespace kvd
