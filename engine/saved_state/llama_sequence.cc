#include "engine/saved_state/llama_sequence.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

namespace kvd {
namespace {

std::unexpected<Error> Refuse(Code code, const std::string& why) {
  return Fail(code, "llama.cpp state: " + why);
}
std::unexpected<Error> Invalid(const std::string& why) {
  return Refuse(Code::kInvalidArgument, why);
}

bool HasCell(const LlamaStateFile& file, const LlamaCells& part, const LlamaCell& cell,
             std::int32_t id) {
  if (file.kind == LlamaFileKind::kSequence) return true;
  const auto ids = std::span(part.sequence_ids).subspan(cell.first_id, cell.id_count);
  return std::ranges::find(ids, id) != ids.end();
}

// The sequence's cells of one cache, by position. part null: it has none there.
Result<LlamaSequence::Cache> CellsOf(const LlamaStateFile& file, std::uint32_t cache,
                                     std::int32_t id) {
  LlamaSequence::Cache found;
  for (const LlamaCells& part : file.parts) {
    if (part.cache != cache) continue;
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < part.cells.size(); ++i) {
      if (HasCell(file, part, part.cells[i], id)) indices.push_back(i);
    }
    if (indices.empty()) continue;
    if (found.part != nullptr) {
      return Invalid("sequence " + std::to_string(id) + " has cells in streams " +
                     std::to_string(found.part->stream) + " and " + std::to_string(part.stream));
    }
    found.part = &part;
    found.indices = std::move(indices);
  }
  if (found.part == nullptr) return found;
  const auto pos_of = [&](std::uint32_t i) { return found.part->cells[i].pos; };
  std::ranges::sort(found.indices, {}, pos_of);
  const auto twice = std::ranges::adjacent_find(found.indices, {}, pos_of);
  if (twice != found.indices.end()) {
    return Invalid("cache " + std::to_string(cache) + " has two cells at position " +
                   std::to_string(pos_of(*twice)));
  }
  return found;
}

std::string Caches(std::uint32_t count) {
  return std::to_string(count) + (count == 1 ? " cache" : " caches");
}

// How many tokens the sequence has by its cells alone. 0: no cells.
Result<std::size_t> TokensOf(const LlamaStateFile& file, std::int32_t id,
                             const LlamaCacheKinds& kinds) {
  KVD_TRY(const LlamaSequence::Cache cache, CellsOf(file, 0, id));
  if (cache.part == nullptr) return std::size_t{0};
  if (kinds.has_attention) return cache.indices.size();
  return static_cast<std::size_t>(cache.part->cells[cache.indices.back()].pos) + 1;
}

// The file's tokens that are the sequence's.
Result<std::span<const TokenId>> TokensFor(const LlamaStateFile& file, std::int32_t id,
                                           const std::vector<std::int32_t>& ids,
                                           const LlamaCacheKinds& kinds) {
  const std::span<const TokenId> all = file.tokens;
  if (ids.size() == 1) return all;
  std::size_t before = 0, own = 0, total = 0;
  for (std::int32_t other : ids) {
    KVD_TRY(const std::size_t count, TokensOf(file, other, kinds));
    if (other < id) before += count;
    if (other == id) own = count;
    total += count;
  }
  if (total == all.size()) return all.subspan(before, own);
  if (id == ids.front()) return all;
  return Refuse(Code::kUnsupported, "sequence " + std::to_string(id) +
                                        ": the file has the tokens of sequence " +
                                        std::to_string(ids.front()) + " alone");
}

Status SelectStates(const LlamaStateFile& file, std::int32_t id, LlamaSequence& sequence) {
  KVD_TRY(const LlamaSequence::Cache states, CellsOf(file, file.cache_count - 1, id));
  if (states.part == nullptr) {
    return Invalid("no recurrent state of sequence " + std::to_string(id));
  }
  if (states.indices.size() != 1) {
    return Invalid(std::to_string(states.indices.size()) + " recurrent states of sequence " +
                   std::to_string(id) + ", expected 1");
  }
  sequence.states = states.part;
  sequence.state_index = states.indices[0];
  return {};
}

// The cells of the first cache decide; those of the second are its last ones.
Status SelectCells(const LlamaStateFile& file, std::int32_t id, const LlamaCacheKinds& kinds,
                   LlamaSequence& sequence) {
  const std::uint32_t caches = file.cache_count - (kinds.has_states ? 1 : 0);
  for (std::uint32_t cache = 0; cache < caches; ++cache) {
    KVD_TRY(LlamaSequence::Cache cells, CellsOf(file, cache, id));
    if (cells.part == nullptr) {
      return Invalid("no cells of sequence " + std::to_string(id) + " in cache " +
                     std::to_string(cache));
    }
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
        return Invalid("the cells of cache " + std::to_string(cache) +
                       " are not the last ones of cache 0");
      }
      cells.first_cell = static_cast<std::uint32_t>(all - cells.indices.size());
    }
    sequence.caches.push_back(std::move(cells));
  }
  return {};
}

// Fewer tokens than cells: cells at the end are left out, if there is no state behind them.
Status FitTokens(std::span<const TokenId> tokens, LlamaSequence& sequence) {
  const std::size_t cells = sequence.positions.size();
  if (tokens.size() != cells) {
    const std::string numbers =
        std::to_string(cells) + " cells and " + std::to_string(tokens.size()) + " tokens";
    if (tokens.empty()) return Invalid(numbers);
    if (static_cast<std::size_t>(sequence.positions.back().value) + 1 != cells) {
      return Invalid(numbers + ", and the positions have holes: whose tokens they are is unknown");
    }
    if (tokens.size() < cells && sequence.states != nullptr) {
      return Invalid(numbers + ": the recurrent state is behind them all");
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
  return Invalid(Caches(file.cache_count) + " in the file, the model has " +
                 (least == most ? Caches(least) : std::to_string(least) + " or " + Caches(most)));
}

std::vector<std::int32_t> LlamaSequenceIds(const LlamaStateFile& file) {
  if (file.kind == LlamaFileKind::kSequence) return {0};
  std::set<std::int32_t> ids;
  for (const LlamaCells& part : file.parts) {
    ids.insert(part.sequence_ids.begin(), part.sequence_ids.end());
  }
  return {ids.begin(), ids.end()};
}

Result<LlamaSequence> SelectLlamaSequence(const LlamaStateFile& file, std::int32_t id,
                                          const LlamaCacheKinds& kinds) {
  const std::vector<std::int32_t> ids = LlamaSequenceIds(file);
  if (ids.empty()) return Invalid("no cells");
  if (id < 0 && ids.size() > 1) {
    return Invalid(std::to_string(ids.size()) + " sequences, from " + std::to_string(ids.front()) +
                   " to " + std::to_string(ids.back()) + ": name one");
  }
  if (id < 0) id = ids.front();
  if (!std::ranges::binary_search(ids, id)) {
    return Invalid("no sequence " + std::to_string(id) + "; " + std::to_string(ids.size()) +
                   " from " + std::to_string(ids.front()) + " to " + std::to_string(ids.back()));
  }
  LlamaSequence sequence;
  if (kinds.has_states) KVD_CHECK_OK(SelectStates(file, id, sequence));
  KVD_TRY(const std::span<const TokenId> tokens, TokensFor(file, id, ids, kinds));
  if (kinds.has_attention) {
    KVD_CHECK_OK(SelectCells(file, id, kinds, sequence));
    if (sequence.states != nullptr) {
      const std::int32_t pos = sequence.states->cells[sequence.state_index].pos;
      if (pos != sequence.positions.back().value) {
        return Invalid("the recurrent state is at position " + std::to_string(pos) +
                       ", the last cell at " + std::to_string(sequence.positions.back().value));
      }
    }
    KVD_CHECK_OK(FitTokens(tokens, sequence));
    return sequence;
  }
  // States alone say where they stand; every token up to there has gone into them.
  const auto cells = static_cast<std::size_t>(sequence.states->cells[sequence.state_index].pos) + 1;
  if (tokens.size() < cells) {
    return Invalid(std::to_string(tokens.size()) + " tokens, but the recurrent state is behind " +
                   std::to_string(cells));
  }
  for (std::size_t pos = 0; pos < cells; ++pos) {
    sequence.positions.push_back(Pos{static_cast<std::int32_t>(pos)});
  }
  KVD_CHECK_OK(FitTokens(tokens, sequence));
  return sequence;
}

}  // namespace kvd
