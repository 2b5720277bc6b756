#include "llama_files/llama_sequence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/metered_sort.h"
#include "base/text.h"
#include "llama_files/llama_state_file.h"

namespace kvd {
namespace {

constexpr std::size_t kCellUnits = 4;  // units of work (WorkMeter) for one cell

// Returns the sequence's cells in one cache, ordered by position. Cache::part is null if the
// sequence has no cells in the cache.
Result<LlamaSequence::Cache> CellsOf(const LlamaSequenceIndex& index, std::uint32_t cache,
                                     std::int32_t id, WorkMeter& meter) {
  LlamaSequence::Cache found;
  const std::vector<LlamaCells>& parts = index.file().parts;
  for (std::size_t number = 0; number < parts.size(); ++number) {
    const LlamaCells& part = parts[number];
    if (part.cache != cache) continue;
    const std::span<const std::uint32_t> cells = index.CellsOf(number, id);
    KVD_CHECK_OK(meter.Spend(1 + cells.size()));
    if (cells.empty()) continue;
    if (found.part != nullptr) {
      return InvalidLlamaState(Concat("sequence ", id, " has cells in streams ", found.part->stream,
                                      " and ", part.stream));
    }
    found.part = &part;
    found.indices.assign(cells.begin(), cells.end());
  }
  if (found.part == nullptr) return found;
  const auto pos_of = [&](std::uint32_t i) {
    return static_cast<std::uint32_t>(found.part->cells[i].pos);
  };
  KVD_CHECK_OK(SortMetered(&found.indices, pos_of, meter));
  const auto twice = std::ranges::adjacent_find(found.indices, {}, pos_of);
  if (twice != found.indices.end()) {
    return InvalidLlamaState(
        Concat("cache ", cache, " has two cells at position ", pos_of(*twice)));
  }
  return found;
}

std::string Caches(std::uint32_t count) {
  return Concat(count, (count == 1 ? " cache" : " caches"));
}

// Returns the part of the file's token list that belongs to the sequence.
Result<std::span<const TokenId>> TokensFor(const LlamaSequenceIndex& index, std::int32_t id,
                                           const LlamaCacheKinds& kinds) {
  const std::span<const TokenId> all = index.file().tokens;
  if (index.ids().size() == 1) return all;
  std::size_t before = 0, own = 0, total = 0;
  for (const std::int32_t other : index.ids()) {
    const LlamaSequenceIndex::Extent& extent = index.ExtentOf(other);
    const std::size_t count = kinds.has_attention ? extent.cell_count : extent.end_pos;
    if (other < id) before += count;
    if (other == id) own = count;
    total += count;
  }
  if (total == all.size()) return all.subspan(before, own);
  if (id == index.ids().front()) return all;
  return FailLlamaState(Code::kUnsupported,
                        Concat("sequence ", id, ": the file has only the tokens of sequence ",
                               index.ids().front(), ""));
}

Status SelectStates(const LlamaSequenceIndex& index, std::int32_t id, WorkMeter& meter,
                    LlamaSequence& sequence) {
  KVD_TRY(const LlamaSequence::Cache states,
          CellsOf(index, index.file().cache_count - 1, id, meter));
  if (states.part == nullptr) {
    return InvalidLlamaState(Concat("no recurrent state of sequence ", id));
  }
  if (states.indices.size() != 1) {
    return InvalidLlamaState(
        Concat(states.indices.size(), " recurrent states of sequence ", id, ", expected 1"));
  }
  sequence.states = states.part;
  sequence.state_index = states.indices[0];
  return {};
}

// Selects the sequence's cells in the caches of attention layers. The cells of the first cache
// determine the sequence's positions; the cells of the second cache must be at the last of these
// positions.
Status SelectCells(const LlamaSequenceIndex& index, std::int32_t id, const LlamaCacheKinds& kinds,
                   WorkMeter& meter, LlamaSequence& sequence) {
  const std::uint32_t caches = index.file().cache_count - (kinds.has_states ? 1 : 0);
  for (std::uint32_t cache = 0; cache < caches; ++cache) {
    KVD_TRY(LlamaSequence::Cache cells, CellsOf(index, cache, id, meter));
    if (cells.part == nullptr) {
      return InvalidLlamaState(Concat("no cells of sequence ", id, " in cache ", cache));
    }
    KVD_CHECK_OK(meter.Spend(cells.indices.size()));
    if (cache == 0) {
      for (std::uint32_t i : cells.indices) {
        sequence.positions.push_back(Pos{cells.part->cells[i].pos});
      }
    } else {
      const auto pos_of = [&](std::uint32_t i) { return Pos{cells.part->cells[i].pos}; };
      const std::size_t all = sequence.positions.size();
      if (cells.indices.size() > all ||
          !std::ranges::equal(
              cells.indices,
              std::span(sequence.positions).last(std::min(all, cells.indices.size())), {},
              pos_of)) {
        return InvalidLlamaState(
            Concat("the cells of cache ", cache, " are not the last ones of cache 0"));
      }
      cells.first_cell = static_cast<std::uint32_t>(all - cells.indices.size());
    }
    sequence.caches.push_back(std::move(cells));
  }
  return {};
}

// Makes the numbers of tokens and cells equal. If there are fewer tokens than cells, the last cells
// are left out. Leaving out cells is an error if the sequence has a recurrent state, which depends
// on all cells.
Status FitTokens(std::span<const TokenId> tokens, LlamaSequence& sequence) {
  const std::size_t cells = sequence.positions.size();
  if (tokens.size() != cells) {
    const std::string numbers = Concat(cells, " cells and ", tokens.size(), " tokens");
    if (tokens.empty()) return InvalidLlamaState(numbers);
    if (static_cast<std::size_t>(sequence.positions.back().value) + 1 != cells) {
      return InvalidLlamaState(
          numbers + ", and the positions have gaps: the cells of the tokens are unknown");
    }
    if (tokens.size() < cells && sequence.states != nullptr) {
      return InvalidLlamaState(numbers + ": the recurrent state depends on all cells");
    }
  }
  const std::size_t taken = std::min(tokens.size(), cells);
  sequence.tokens_left_out = static_cast<std::uint32_t>(tokens.size() - taken);
  sequence.cells_left_out = static_cast<std::uint32_t>(cells - taken);
  sequence.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(taken));
  sequence.positions.resize(taken);
  for (LlamaSequence::Cache& cache : sequence.caches) {
    cache.first_cell = std::min(cache.first_cell, static_cast<std::uint32_t>(taken));
    cache.indices.resize(taken - cache.first_cell);
  }
  return {};
}

}  // namespace

Status CheckLlamaCaches(const LlamaStateFile& file, const LlamaCacheKinds& kinds) {
  const std::uint32_t least = (kinds.has_attention ? 1u : 0u) + (kinds.has_states ? 1u : 0u);
  const std::uint32_t most = least + (kinds.has_attention && kinds.has_windows ? 1u : 0u);
  if (file.cache_count >= least && file.cache_count <= most) return {};
  return InvalidLlamaState(Caches(file.cache_count) + " in the file, the model has " +
                           (least == most ? Caches(least) : Concat(least, " or ", Caches(most))));
}

template <class Visit>
Status LlamaSequenceIndex::VisitCells(const LlamaCells& part, WorkMeter& meter,
                                      const Visit& visit) const {
  const bool is_session = file_->kind == LlamaFileKind::kSession;
  for (std::uint32_t number = 0; number < part.cells.size(); ++number) {
    const LlamaCell& cell = part.cells[number];
    KVD_CHECK_OK(meter.Spend(kCellUnits * (std::size_t{1} + cell.id_count)));
    if (!is_session) visit(std::size_t{0}, number);
    if (!is_session) continue;
    for (const std::int32_t id :
         std::span(part.sequence_ids).subspan(cell.first_id, cell.id_count)) {
      visit(static_cast<std::size_t>(id), number);
    }
  }
  return {};
}

// Counts the cells of each sequence, then fills Part::cells. A cell that lists a sequence twice is
// added once.
Status LlamaSequenceIndex::AddPart(const LlamaCells& part, WorkMeter& meter) {
  constexpr std::uint32_t kNone = ~0u;
  Part& added = parts_.emplace_back();
  added.begins.assign(kLlamaSequencesMax + 1, 0);
  std::vector<std::uint32_t> last(kLlamaSequencesMax, kNone);
  KVD_CHECK_OK(VisitCells(part, meter, [&](std::size_t id, std::uint32_t cell) {
    if (std::exchange(last[id], cell) == cell) return;
    ++added.begins[id + 1];
    if (part.cache != 0) return;
    ++extents_[id].cell_count;
    extents_[id].end_pos =
        std::max(extents_[id].end_pos, static_cast<std::size_t>(part.cells[cell].pos) + 1);
  }));
  for (std::size_t id = 0; id < kLlamaSequencesMax; ++id) added.begins[id + 1] += added.begins[id];
  added.cells.resize(added.begins.back());
  std::vector<std::size_t> next = added.begins;
  std::ranges::fill(last, kNone);
  return VisitCells(part, meter, [&](std::size_t id, std::uint32_t cell) {
    if (std::exchange(last[id], cell) != cell) added.cells[next[id]++] = cell;
  });
}

Result<LlamaSequenceIndex> LlamaSequenceIndex::Create(const LlamaStateFile& file,
                                                      WorkControl& work) {
  WorkMeter meter(work);
  LlamaSequenceIndex index(file);
  index.extents_.resize(kLlamaSequencesMax);
  for (const LlamaCells& part : file.parts) KVD_CHECK_OK(index.AddPart(part, meter));
  for (std::size_t id = 0; id < kLlamaSequencesMax; ++id) {
    const bool is_named = std::ranges::any_of(
        index.parts_, [id](const Part& part) { return part.begins[id] != part.begins[id + 1]; });
    const bool is_only = file.kind == LlamaFileKind::kSequence && id == 0;
    if (is_named || is_only) index.ids_.push_back(static_cast<std::int32_t>(id));
  }
  return index;
}

bool LlamaSequenceIndex::Contains(std::int32_t id) const {
  return std::ranges::binary_search(ids_, id);
}

std::span<const std::uint32_t> LlamaSequenceIndex::CellsOf(std::size_t part,
                                                           std::int32_t id) const {
  const Part& of = parts_[part];
  const std::size_t begin = of.begins[static_cast<std::size_t>(id)];
  return std::span(of.cells).subspan(begin, of.begins[static_cast<std::size_t>(id) + 1] - begin);
}

Result<LlamaSequence> SelectLlamaSequence(const LlamaSequenceIndex& index, std::int32_t id,
                                          const LlamaCacheKinds& kinds, WorkControl& work) {
  const std::vector<std::int32_t>& ids = index.ids();
  WorkMeter meter(work);
  if (ids.empty()) return InvalidLlamaState("no cells");
  if (id < 0 && ids.size() > 1) {
    return InvalidLlamaState(
        Concat(ids.size(), " sequences, from ", ids.front(), " to ", ids.back(), ": name one"));
  }
  if (id < 0) id = ids.front();
  if (!index.Contains(id)) {
    return InvalidLlamaState(
        Concat("no sequence ", id, "; ", ids.size(), " from ", ids.front(), " to ", ids.back()));
  }
  LlamaSequence sequence;
  if (kinds.has_states) KVD_CHECK_OK(SelectStates(index, id, meter, sequence));
  KVD_TRY(const std::span<const TokenId> tokens, TokensFor(index, id, kinds));
  if (kinds.has_attention) {
    KVD_CHECK_OK(SelectCells(index, id, kinds, meter, sequence));
    if (sequence.states != nullptr) {
      const std::int32_t pos = sequence.states->cells[sequence.state_index].pos;
      if (pos != sequence.positions.back().value) {
        return InvalidLlamaState(Concat("the recurrent state is at position ", pos,
                                        ", the last cell at ", sequence.positions.back().value));
      }
    }
    KVD_CHECK_OK(FitTokens(tokens, sequence));
    return sequence;
  }
  // If a file has only recurrent states, the position of the last token is the position of the
  // state's cell, and the state depends on all tokens up to this position.
  const auto cells = static_cast<std::size_t>(sequence.states->cells[sequence.state_index].pos) + 1;
  if (tokens.size() < cells) {
    return InvalidLlamaState(
        Concat(tokens.size(), " tokens, but the recurrent state depends on ", cells));
  }
  for (std::size_t pos = 0; pos < cells; ++pos) {
    sequence.positions.push_back(Pos{static_cast<std::int32_t>(pos)});
  }
  KVD_CHECK_OK(FitTokens(tokens, sequence));
  return sequence;
}

}  // namespace kvd
