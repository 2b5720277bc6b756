// Validates the record of one sequence: the places of its lists and their content (extents, cells,
// positions, checkpoints). Every value is checked before it is used as an index or a count.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/memory/extents.h"
#include "engine/memory/rebuild.h"

namespace kvd {
namespace {

using layout::kBlockCells;
using layout::kNoSlot;
using meta_check::Corrupt;
using meta_check::IsZero;
using meta_check::Name;

constexpr std::uint32_t kFlagsKnown = layout::kSequenceLive | layout::kSequenceRetained |
                                      layout::kSequencePinned | layout::kSequencePublished |
                                      layout::kSequenceEdited | layout::kSequenceEphemeral;
constexpr std::uint32_t kCellsMax = std::numeric_limits<std::int32_t>::max();  // of one sequence

// Checks that the list lies within the arena.
Status ValidateListPlace(ConstMetaView meta, const std::string& name,
                         const layout::ListRoot& root) {
  if (root.capacity_units == 0) {
    if (!(root == kEmptyList))
      return Corrupt(name, "an empty list (0 units), but first_unit, entry_count or crc is set");
    return {};
  }
  const std::uint32_t unit_count = meta.geometry().list_unit_count;
  if (root.first_unit >= unit_count || root.capacity_units > unit_count - root.first_unit) {
    return Corrupt(name + " first_unit", Concat(root.first_unit, " + ", root.capacity_units, " of ",
                                                unit_count, " units"));
  }
  return {};
}

Status ValidateListRoot(ConstMetaView meta, const std::string& name, const layout::ListRoot& root) {
  KVD_CHECK_OK(ValidateListPlace(meta, name, root));
  if (root.capacity_units == 0) return {};
  const std::uint64_t room =
      std::uint64_t{root.capacity_units} * (layout::kListUnitBytes / sizeof(layout::Extent));
  if (root.entry_count == 0 || root.entry_count > room) {
    return Corrupt(name + " entry_count", root.entry_count);
  }
  if (Crc32c(0, std::as_bytes(meta.entries(root))) != root.crc) {
    return Corrupt(name + " crc", "does not match");
  }
  return {};
}

// first_cell: the ordinal at which the list must start; at most view.cell_count.
Status ValidateExtents(ConstMetaView meta, const std::string& name, std::uint32_t group,
                       std::uint32_t first_cell, ExtentView view) {
  if (view.entries.empty()) {
    if (view.cell_count != first_cell) return Corrupt(name + " cell_count", view.cell_count);
    return {};
  }
  if (view.entries[0].start != first_cell) {
    return Corrupt(name + " extent 0 start", view.entries[0].start);
  }
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    const layout::Extent& extent = view.entries[index];
    const auto field = [&](const char* which) {
      return Concat(name, " extent ", index, " ", which);
    };
    if (extent.block >= meta.geometry().block_count[group]) {
      return Corrupt(field("block"), extent.block);
    }
    if (extent.reserved != 0) return Corrupt(field("reserved"), extent.reserved);
    if (extent.first >= kBlockCells) return Corrupt(field("first"), extent.first);
    const std::uint32_t end = view.EndOf(index);
    if (end <= extent.start || end - extent.start > kBlockCells - extent.first) {
      return Corrupt(field("end"),
                     Concat(end, " with start ", extent.start, " and first ", extent.first));
    }
    // Normal form: adjacent extents are joined, because an edit removes joined ranges from the
    // counts as one range.
    if (index > 0 && view.entries[index - 1].block == extent.block &&
        view.entries[index - 1].delta == extent.delta &&
        view.entries[index - 1].first + view.CountOf(index - 1) == extent.first) {
      return Corrupt(field("first"), "continues the extent before it");
    }
  }
  return {};
}

// Checks the record of one cell. REQUIRES: the extents are valid.
Status ValidateCell(const layout::CellRecord& cell_record, const std::string& sequence_name,
                    std::uint32_t ordinal, const CellLimits& limits, std::uint32_t group,
                    std::uint32_t block, std::uint32_t cell) {
  const bool is_right = cell_record.check == CellCheck(cell_record.token, cell_record.stored_pos,
                                                       group, block, cell, cell_record.key_form) &&
                        cell_record.key_form < limits.key_forms && cell_record.stored_pos >= 0 &&
                        cell_record.token >= 0 &&
                        std::cmp_less(cell_record.token, limits.vocab_size);
  if (is_right) [[likely]]
    return {};
  const std::string name = Concat(sequence_name, " cell ", ordinal);
  if (cell_record.check != CellCheck(cell_record.token, cell_record.stored_pos, group, block, cell,
                                     cell_record.key_form)) {
    return Corrupt(name + " check", "does not match");
  }
  if (cell_record.key_form >= limits.key_forms) {
    return Corrupt(name + " key_form", cell_record.key_form);
  }
  if (cell_record.stored_pos < 0) {
    return Corrupt(name + " stored_pos", std::to_string(cell_record.stored_pos));
  }
  return Corrupt(name + " token", std::to_string(cell_record.token));
}

// Calls visit(ordinal, range, record of the cell) for each cell and stops at the first error.
template <class Visit>
Status ForEachCell(ConstMetaView meta, const std::string& name, std::uint32_t group,
                   ExtentView view, const CellLimits& limits, Visit visit) {
  std::uint32_t ordinal = view.first_cell();
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    const BlockRange range = view.RangeAt(index);
    for (std::uint32_t cell = range.first; cell < range.first + std::uint32_t{range.count};
         ++cell, ++ordinal) {
      const layout::CellRecord& record = meta.cells(group, range.block)[cell];
      KVD_CHECK_OK(ValidateCell(record, name, ordinal, limits, group, range.block, cell));
      KVD_CHECK_OK(visit(ordinal, range, record));
    }
  }
  return {};
}

// Checks the cells and positions of group 0, and the fields of the record that depend on them.
Status ValidateCells(ConstMetaView meta, const std::string& name,
                     const layout::SequenceRecord& record, ExtentView view,
                     const CellLimits& limits) {
  std::int64_t last = -1;
  if (record.pristine_cells > record.cell_count) {
    return Corrupt(name + " pristine_cells", record.pristine_cells);
  }
  KVD_CHECK_OK(ForEachCell(
      meta, name, 0, view, limits,
      [&](std::uint32_t ordinal, const BlockRange& range,
          const layout::CellRecord& cell) -> Status {
        const auto field = [&] { return Concat(name, " cell ", ordinal, " position"); };
        const std::int64_t position = std::int64_t{cell.stored_pos} + range.delta;
        if (position < 0 || position > kLastPos || position < last) {
          return Corrupt(field(), Concat(position, " after ", last));
        }
        if (ordinal < record.pristine_cells && position != ordinal) {
          return Corrupt(
              field(), Concat(position, ", but pristine cells are at the positions 0, 1, 2, ..."));
        }
        last = position;
        return {};
      }));
  if (record.next_pos != last + 1) {
    return Corrupt(name + " next_pos", Concat(record.next_pos, " after ", last));
  }
  if (((record.flags & layout::kSequenceEdited) != 0) !=
      (record.pristine_cells < record.cell_count)) {
    return Corrupt(name + " flags", "edited and pristine_cells disagree");
  }
  return {};
}

// Group 0 holds all cells. A window group must hold the last cells of the sequence, and no later
// token may reach a cell that the group has dropped. REQUIRES: group 0 is valid.
Status ValidateGroup(ConstMetaView meta, const std::string& name, std::uint32_t group,
                     const layout::SequenceRecord& record, ExtentView view,
                     const CellLimits& limits) {
  const CellList all{{meta.entries(record.extents[0]), record.cell_count}, meta.cells(0, 0)};
  const std::uint32_t first = record.first_cell[group];
  const std::int64_t window = meta.geometry().window[group];
  if (first > 0 && record.next_pos - all.PositionAt(first - 1) < window) {
    return Corrupt(name + " first_cell", Concat(first, " drops cells within the window"));
  }
  return ForEachCell(meta, name, group, view, limits,
                     [&](std::uint32_t ordinal, const BlockRange& range,
                         const layout::CellRecord& cell) -> Status {
                       if (cell.token != all.RecordAt(ordinal).token ||
                           std::int64_t{cell.stored_pos} + range.delta != all.PositionAt(ordinal)) {
                         return Corrupt(Concat(name, " cell ", ordinal),
                                        "differs from the cell of group 0");
                       }
                       return {};
                     });
}

// Checks the cells of the encoded text, whose positions are 0, 1, ….
Status ValidateCross(ConstMetaView meta, const std::string& name, std::uint32_t group,
                     ExtentView view, const CellLimits& limits) {
  return ForEachCell(meta, name, group, view, limits,
                     [&](std::uint32_t ordinal, const BlockRange& range,
                         const layout::CellRecord& cell) -> Status {
                       if (std::int64_t{cell.stored_pos} + range.delta != ordinal) {
                         return Corrupt(Concat(name, " cell ", ordinal, " position"),
                                        std::to_string(cell.stored_pos));
                       }
                       return {};
                     });
}

Status ValidateGroups(ConstMetaView meta, const std::string& name,
                      const layout::SequenceRecord& record, const CellLimits& limits) {
  const layout::MetaGeometry& geometry = meta.geometry();
  if (geometry.cross_group == kNoSlot ? record.cross_cells != 0 : record.cross_cells > kCellsMax) {
    return Corrupt(name + " cross_cells", record.cross_cells);
  }
  for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
    const std::string extents = Concat(name, " extents[", group, "]");
    const layout::ListRoot& root = record.extents[group];
    if (group >= geometry.group_count) {
      if (!(root == kEmptyList) || record.first_cell[group] != 0) {
        return Corrupt(extents, "not empty, but there is no such group");
      }
      continue;
    }
    KVD_CHECK_OK(ValidateListRoot(meta, extents, root));
    const ExtentView view{meta.entries(root), CellCountOf(record, geometry, group)};
    const std::uint32_t first = record.first_cell[group];
    if (first > (geometry.window[group] == 0 ? 0 : view.cell_count)) {
      return Corrupt(Concat(name, " first_cell[", group, "]"), first);
    }
    const std::string group_name = group == 0 ? name : Concat(name, " group ", group);
    KVD_CHECK_OK(ValidateExtents(meta, group_name, group, first, view));
    if (group == 0) {
      KVD_CHECK_OK(ValidateCells(meta, name, record, view, limits));
    } else if (group == geometry.cross_group) {
      KVD_CHECK_OK(ValidateCross(meta, group_name, group, view, limits));
    } else {
      KVD_CHECK_OK(ValidateGroup(meta, group_name, group, record, view, limits));
    }
  }
  return {};
}

// The number of the sequence's tokens, with those whose cells it has given back.
std::uint32_t CountTokens(const layout::SequenceRecord& record) {
  return record.given.entry_count == 0 ? record.cell_count
                                       : record.given_from + record.given.entry_count;
}

Status ValidateState(ConstMetaView meta, const std::string& name,
                     const layout::SequenceRecord& record) {
  const std::uint32_t state_count = meta.geometry().state_slot_count;
  const std::uint32_t logits_count = meta.geometry().logits_row_count;
  const bool has_state = state_count != 0 && record.cell_count != 0;
  if (has_state ? record.state_slot >= state_count : record.state_slot != kNoSlot) {
    return Corrupt(name + " state_slot", record.state_slot);
  }
  if (record.logits_slot != kNoSlot &&
      (record.logits_slot >= logits_count || record.cell_count == 0)) {
    return Corrupt(name + " logits_slot", record.logits_slot);
  }
  KVD_CHECK_OK(ValidateListRoot(meta, name + " checkpoints", record.checkpoints));
  if (record.checkpoints.entry_count != 0 && !has_state) {
    return Corrupt(name + " checkpoints", "not empty, but the sequence has no state");
  }
  std::uint32_t last = 0;
  for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
    const std::string field = Concat(name, " checkpoint at ", checkpoint.cell_count);
    if (checkpoint.cell_count <= last || checkpoint.cell_count > record.cell_count) {
      return Corrupt(field, Concat("after ", last, " of ", record.cell_count, " cells"));
    }
    if (checkpoint.state_slot >= state_count) {
      return Corrupt(field + " state_slot", checkpoint.state_slot);
    }
    if (!IsZero(checkpoint.reserved)) return Corrupt(field + " reserved", "not zero");
    last = checkpoint.cell_count;
  }
  const layout::SamplerRecord& sampler = record.sampler;
  constexpr std::uint32_t kSamplerFlags = layout::kSamplerKept | layout::kSamplerIgnoresEos |
                                          layout::kSamplerBiased | layout::kSamplerOwnBreakers;
  constexpr std::uint32_t kLlamaFlags =
      layout::kSamplerLlamaDraws | layout::kSamplerDrawLast | layout::kSamplerXtcDrawLast;
  const bool draws_as_llama = (sampler.flags & layout::kSamplerLlamaDraws) != 0;
  const bool is_zero = std::ranges::all_of(std::as_bytes(std::span(&sampler, 1)),
                                           [](std::byte byte) { return byte == std::byte{0}; });
  const bool is_kept = (sampler.flags & layout::kSamplerKept) != 0;
  if ((sampler.flags & ~(draws_as_llama ? kSamplerFlags | kLlamaFlags : kSamplerFlags)) != 0 ||
      (!draws_as_llama && sampler.xtc_draw_count != 0) || (!is_kept && !is_zero)) {
    return Corrupt(name + " sampler", Concat("flags ", sampler.flags));
  }
  if (sampler.grammar_begin > (sampler.grammar_hash != 0 ? CountTokens(record) : 0)) {
    return Corrupt(name + " sampler grammar_begin", sampler.grammar_begin);
  }
  const bool is_computed = record.request != 0;
  if (is_computed != (record.request_session != 0) ||
      (!is_computed && record.request_first_cell != 0) ||
      (record.request_first_cell != kNoSlot && record.request_first_cell > CountTokens(record))) {
    return Corrupt(name + " request_first_cell",
                   Concat(record.request_first_cell, " of request ", record.request, " of session ",
                          record.request_session));
  }
  return {};
}

// Checks the parent and the kept edits. The parent may have been dropped, and its record may belong
// to another sequence.
Status ValidateHistory(ConstMetaView meta, const std::string& name,
                       const layout::SequenceRecord& record, std::uint32_t index) {
  const auto parent = static_cast<SequenceHandle>(record.parent);
  const bool has_parent = parent != SequenceHandle::kNone;
  if (has_parent &&
      (GenerationOf(parent) == 0 || IndexOf(parent) >= meta.geometry().sequence_capacity)) {
    return Corrupt(name + " parent", record.parent);
  }
  if (record.parent_cells > (has_parent ? kCellsMax : 0)) {
    return Corrupt(name + " parent_cells", record.parent_cells);
  }
  const std::uint32_t kept = std::min(record.edit_count, layout::kEditsKept);
  for (std::uint32_t at = 0; at < kept; ++at) {
    const layout::EditRecord& edit = meta.history(index)[at];
    const std::string field = Concat(name, " edit ", at);
    if (edit.kind < layout::kEditRemoved || edit.kind > layout::kEditDivided) {
      return Corrupt(field + " kind", edit.kind);
    }
    if (edit.first < 0 || edit.end <= edit.first) {
      return Corrupt(field + " range", Concat(edit.first, " to ", edit.end));
    }
  }
  return {};
}

// Checks the tokens whose cells the sequence has given back.
Status ValidateGiven(ConstMetaView meta, const std::string& name,
                     const layout::SequenceRecord& record, const CellLimits& limits) {
  const layout::ListRoot& root = record.given;
  KVD_CHECK_OK(ValidateListPlace(meta, name + " given", root));
  if (root.capacity_units == 0) {
    if (record.given_from != 0) return Corrupt(name + " given_from", record.given_from);
    return {};
  }
  const std::uint64_t room =
      std::uint64_t{root.capacity_units} * (layout::kListUnitBytes / sizeof(TokenId));
  if (root.entry_count == 0 || root.entry_count > room || root.entry_count > kCellsMax) {
    return Corrupt(name + " given entry_count", root.entry_count);
  }
  if (record.given_from > record.cell_count ||
      record.cell_count - record.given_from >= root.entry_count ||
      record.given_from > kCellsMax - root.entry_count) {
    return Corrupt(name + " given_from", Concat(record.given_from, ", and ", root.entry_count,
                                                " tokens, of ", record.cell_count, " cells"));
  }
  if (Crc32c(0, std::as_bytes(meta.tokens(root))) != root.crc) {
    return Corrupt(name + " given crc", "does not match");
  }
  for (const TokenId token : meta.tokens(root)) {
    if (token < 0 || std::cmp_greater_equal(token, limits.vocab_size)) {
      return Corrupt(name + " given token", std::to_string(token));
    }
  }
  constexpr std::uint32_t kNotGiving = layout::kSequenceRetained | layout::kSequencePublished;
  if ((record.flags & kNotGiving) != 0 || record.cross_cells != 0 ||
      record.pristine_cells != record.cell_count) {
    return Corrupt(name + " given", "the sequence is retained, published or edited");
  }
  return {};
}

}  // namespace

Status meta_check::ValidateRecord(ConstMetaView meta, std::uint32_t index, ListArena* lists) {
  const layout::SequenceRecord& record = meta.sequences()[index];
  const std::string name = Name("sequence", index);
  if (record.generation == 0) return Corrupt(name + " generation", "0");
  if ((record.flags & ~kFlagsKnown) != 0) return Corrupt(name + " flags", record.flags);
  if ((record.flags & layout::kSequenceLive) == 0) {
    if (record.flags != 0) return Corrupt(name + " flags", record.flags);
    return {};
  }
  const auto take = [&](const layout::ListRoot& root, const std::string& field) -> Status {
    KVD_CHECK_OK(ValidateListPlace(meta, name + " " + field, root));
    if (root.capacity_units == 0 || lists->Take(root.first_unit, root.capacity_units)) return {};
    return Corrupt(name + " " + field, "overlaps another list");
  };
  for (std::uint32_t group = 0; group < meta.geometry().group_count; ++group) {
    KVD_CHECK_OK(take(record.extents[group], Concat("extents[", group, "]")));
  }
  KVD_CHECK_OK(take(record.given, "given"));
  return take(record.checkpoints, "checkpoints");
}

Status ValidateSequence(ConstMetaView meta, std::uint32_t index, const CellLimits& limits) {
  const layout::SequenceRecord& record = meta.sequences()[index];
  if ((record.flags & layout::kSequenceLive) == 0) return {};
  const std::string name = Name("sequence", index);
  // A published sequence that is retained could be evicted while its snapshot still names it.
  constexpr std::uint32_t kPrivate = layout::kSequenceRetained | layout::kSequencePinned;
  if ((record.flags & layout::kSequenceEphemeral) != 0 &&
      (record.flags & layout::kSequenceRetained) != 0) {
    return Corrupt(name + " flags", "ephemeral and retained");
  }
  if ((record.flags & layout::kSequencePublished) != 0 && (record.flags & kPrivate) != 0) {
    return Corrupt(name + " flags", "published, and retained or pinned");
  }
  if (record.owner > kOwnerMax) return Corrupt(name + " owner", record.owner);
  for (const std::uint64_t session : {record.owner_session, record.request_session}) {
    if (session > kSessionMax) return Corrupt(name + " session", session);
  }
  if (record.cell_count > kCellsMax) return Corrupt(name + " cell_count", record.cell_count);
  KVD_CHECK_OK(ValidateGroups(meta, name, record, limits));
  KVD_CHECK_OK(ValidateHistory(meta, name, record, index));
  KVD_CHECK_OK(ValidateGiven(meta, name, record, limits));
  return ValidateState(meta, name, record);
}

}  // namespace kvd
