// ReferenceMemory: a naive implementation of Memory's verbs, with which tests compare Memory. Every
// sequence owns a list of its cells; no cell is shared or reference-counted. This header includes
// no header of engine/memory.
//
// Each verb has two functions: Check… returns the error that the arguments should produce (kOk:
// none), and the function with the verb's name applies the verb. REQUIRES: Check… has returned kOk.
// The reference does not model a lack of blocks or list units; tests accept kNoSpace for such a
// lack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace kvd {

struct ReferenceCell {
  TokenId token = 0;
  std::int64_t position = 0;
  std::int64_t shift = 0;  // position minus the position stored with the K row
  std::uint32_t k_id = 0;  // identity of the K row; dividing and settling assign a new one
  std::uint32_t v_id = 0;
  // k_id of the preceding cell when this cell was computed; 0: none
  std::uint32_t parent_id = 0;
  std::int64_t computed_at = 0;     // position of the cell when it was computed
  bool in_pristine_prefix = false;  // all cells before it were pristine when it was computed
  bool is_dropped = false;          // the window group has dropped it
};

struct ReferenceEdit {
  int kind = 0;  // layout::EditKind: 1 removed, 2 copied, 3 shifted, 4 divided
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t delta = 0;
  friend bool operator==(const ReferenceEdit&, const ReferenceEdit&) = default;
};

struct ReferenceSequence {
  std::uint64_t owner = 0;
  std::uint64_t session = 0;
  std::uint64_t salt = 0;
  bool is_retained = false;
  bool is_pinned = false;
  bool is_published = false;
  std::uint64_t edit_number = 1;
  // number of changes of the cells; changes of the owner or flags are not counted
  std::uint64_t content_number = 0;
  std::uint32_t pristine = 0;
  std::vector<ReferenceCell> cells;
  SequenceHandle parent = SequenceHandle::kNone;
  std::size_t parent_cells = 0;
  std::vector<ReferenceEdit> edits;  // all edits since the sequence was created

  std::int64_t next_pos() const { return cells.empty() ? 0 : cells.back().position + 1; }
};

struct ReferenceSnapshot {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t owner = 0;
  bool is_public = false;
};

class ReferenceMemory {
 public:
  static constexpr std::int64_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;

  std::map<SequenceHandle, ReferenceSequence> sequences;
  // By name and owner.
  std::map<std::pair<std::string, std::uint64_t>, ReferenceSnapshot> snapshots;
  std::size_t sequence_capacity = 0;
  std::size_t snapshot_capacity = 0;

  const ReferenceSequence* Find(SequenceHandle handle) const {
    const auto found = sequences.find(handle);
    return found == sequences.end() ? nullptr : &found->second;
  }

  Code CheckRoom(std::size_t wanted) const {
    return sequences.size() + wanted > sequence_capacity ? Code::kNoSpace : Code::kOk;
  }
  Code CheckMutable(SequenceHandle handle) const {
    const ReferenceSequence* sequence = Find(handle);
    if (sequence == nullptr) return Code::kNotFound;
    return sequence->is_published ? Code::kPermission : Code::kOk;
  }
  static Code CheckRange(PosRange range) {
    return range.begin.value < 0 || range.begin.value > range.end.value ? Code::kInvalidArgument
                                                                        : Code::kOk;
  }
  static bool IsIn(const ReferenceCell& cell, PosRange range) {
    return cell.position >= range.begin.value && cell.position < range.end.value;
  }

  Code CheckFork(SequenceHandle source, std::size_t count,
                 std::optional<std::uint32_t> cells) const {
    const ReferenceSequence* sequence = Find(source);
    if (count == 0) return Code::kInvalidArgument;
    if (sequence == nullptr) return Code::kNotFound;
    if (cells && *cells > sequence->cells.size()) return Code::kInvalidArgument;
    return CheckRoom(count);
  }
  void Fork(SequenceHandle source, SequenceHandle fork, std::uint64_t owner, std::uint64_t session,
            std::uint64_t salt, std::optional<std::uint32_t> cells) {
    ReferenceSequence copy = sequences.at(source);
    if (cells) copy.cells.resize(*cells);
    copy.pristine =
        std::min<std::uint32_t>(copy.pristine, static_cast<std::uint32_t>(copy.cells.size()));
    copy.owner = owner;
    copy.session = session;
    copy.salt = salt;
    copy.is_retained = copy.is_pinned = copy.is_published = false;
    copy.edit_number = 1;
    copy.parent = source;
    copy.parent_cells = copy.cells.size();
    copy.edits.clear();
    sequences[fork] = copy;
  }

  Code CheckKeep(SequenceHandle kept, std::uint64_t session) const {
    const ReferenceSequence* sequence = Find(kept);
    if (sequence == nullptr) return Code::kNotFound;
    return sequence->session == session ? Code::kOk : Code::kPermission;
  }
  void Keep(SequenceHandle kept, std::uint64_t session) {
    std::erase_if(sequences, [&](const auto& entry) {
      return entry.first != kept && entry.second.session == session && !entry.second.is_published;
    });
  }

  Code CheckRemove(SequenceHandle handle, PosRange range) const {
    const Code code = CheckMutable(handle);
    return code != Code::kOk ? code : CheckRange(range);
  }
  std::uint32_t Remove(SequenceHandle handle, PosRange range) {
    ReferenceSequence& sequence = sequences.at(handle);
    const auto first = FirstIn(sequence, range);
    Note(&sequence, 1, Copied(handle, range), 0);
    const std::size_t removed =
        std::erase_if(sequence.cells, [&](const ReferenceCell& cell) { return IsIn(cell, range); });
    if (removed > 0) Edited(&sequence, first);
    return static_cast<std::uint32_t>(removed);
  }

  Code CheckCopy(SequenceHandle source, SequenceHandle destination, PosRange range) const {
    if (source == destination) return Code::kInvalidArgument;
    if (Find(source) == nullptr) return Code::kNotFound;
    if (const Code code = CheckMutable(destination); code != Code::kOk) return code;
    if (const Code code = CheckRange(range); code != Code::kOk) return code;
    const std::vector<ReferenceCell> copied = Copied(source, range);
    for (const ReferenceCell& cell : Find(destination)->cells) {
      if (!copied.empty() && cell.position >= copied.front().position &&
          cell.position <= copied.back().position) {
        return Code::kExists;
      }
    }
    return Code::kOk;
  }
  std::uint32_t Copy(SequenceHandle source, SequenceHandle destination, PosRange range) {
    const std::vector<ReferenceCell> copied = Copied(source, range);
    if (copied.empty()) return 0;
    const ReferenceSequence& from = sequences.at(source);
    ReferenceSequence& to = sequences.at(destination);
    const auto count = static_cast<std::uint32_t>(copied.size());
    Note(&to, 2, copied, 0);
    if (to.cells.empty() && copied.front().k_id == from.cells.front().k_id &&
        copied.front().position == from.cells.front().position) {
      to.cells = copied;
      to.pristine = std::min(from.pristine, count);
      Edited(&to, to.pristine);
      return count;
    }
    std::size_t at = 0;
    while (at < to.cells.size() && to.cells[at].position < copied.front().position) ++at;
    to.cells.insert(to.cells.begin() + static_cast<std::ptrdiff_t>(at), copied.begin(),
                    copied.end());
    Edited(&to, static_cast<std::uint32_t>(at));
    return count;
  }

  Code CheckAdd(SequenceHandle handle, PosRange range, std::int32_t delta) const {
    if (const Code code = CheckRemove(handle, range); code != Code::kOk) return code;
    std::vector<ReferenceCell> cells = Find(handle)->cells;
    // No moved cell may leave the range of valid positions, and no moved cell may pass or meet a
    // cell that is not moved.
    for (std::size_t a = 0; a < cells.size(); ++a) {
      if (!IsIn(cells[a], range)) continue;
      const std::int64_t moved = cells[a].position + delta;
      if (delta != 0 && (moved < 0 || moved > kLastPos)) return Code::kInvalidArgument;
    }
    std::int64_t last = -1;
    bool last_moves = false;
    for (const ReferenceCell& cell : cells) {
      const bool moves = IsIn(cell, range);
      const std::int64_t position = cell.position + (moves ? delta : 0);
      if (position < last || (position == last && moves != last_moves))
        return Code::kInvalidArgument;
      last = position;
      last_moves = moves;
    }
    return Code::kOk;
  }
  void Add(SequenceHandle handle, PosRange range, std::int32_t delta) {
    ReferenceSequence& sequence = sequences.at(handle);
    const std::uint32_t first = FirstIn(sequence, range);
    if (delta != 0) Note(&sequence, 3, Copied(handle, range), delta);
    bool any = false;
    for (ReferenceCell& cell : sequence.cells) {
      if (!IsIn(cell, range)) continue;
      cell.position += delta;
      cell.shift += delta;
      any = true;
    }
    if (any && delta != 0) Edited(&sequence, first);
  }

  Code CheckDivide(SequenceHandle handle, PosRange range, std::int32_t divisor) const {
    if (const Code code = CheckRemove(handle, range); code != Code::kOk) return code;
    if (divisor <= 0) return Code::kInvalidArgument;
    std::int64_t last = -1;
    for (const ReferenceCell& cell : Find(handle)->cells) {
      const std::int64_t position = IsIn(cell, range) ? cell.position / divisor : cell.position;
      if (position < last) return Code::kInvalidArgument;
      last = position;
    }
    return Code::kOk;
  }
  std::uint32_t CountIn(SequenceHandle handle, PosRange range) const {
    const auto& cells = Find(handle)->cells;
    return static_cast<std::uint32_t>(std::count_if(
        cells.begin(), cells.end(), [&](const ReferenceCell& cell) { return IsIn(cell, range); }));
  }
  // Divides positions. The divided cells get the K identities first_id, first_id + 1, …
  void Divide(SequenceHandle handle, PosRange range, std::int32_t divisor, std::uint32_t first_id) {
    ReferenceSequence& sequence = sequences.at(handle);
    const std::uint32_t first = FirstIn(sequence, range);
    Note(&sequence, 4, Copied(handle, range), divisor);
    for (ReferenceCell& cell : sequence.cells) {
      if (!IsIn(cell, range)) continue;
      cell.position /= divisor;
      cell.shift = 0;
      cell.k_id = first_id++;
      cell.in_pristine_prefix = false;
    }
    Edited(&sequence, first);
  }

  // Returns the indices [first, second) of the cells that settling rewrites; the two are equal if
  // no cell is shifted.
  std::pair<std::size_t, std::size_t> SettledCells(SequenceHandle handle, bool all) const {
    const auto& cells = Find(handle)->cells;
    std::size_t begin = cells.size();
    std::size_t end = 0;
    for (std::size_t at = 0; at < cells.size(); ++at) {
      if (cells[at].shift == 0) continue;
      begin = std::min(begin, at);
      end = at + 1;
    }
    if (begin >= end) return {0, 0};
    return all ? std::pair{std::size_t{0}, cells.size()} : std::pair{begin, end};
  }
  // Settles shifted cells. The settled cells get the K identities first_id, first_id + 1, …
  void Settle(SequenceHandle handle, bool all, std::uint32_t first_id) {
    const auto [begin, end] = SettledCells(handle, all);
    if (begin == end) return;
    ReferenceSequence& sequence = sequences.at(handle);
    for (std::size_t at = begin; at < end; ++at) {
      sequence.cells[at].shift = 0;
      sequence.cells[at].k_id = first_id++;
      sequence.cells[at].in_pristine_prefix = false;
    }
    Edited(&sequence, static_cast<std::uint32_t>(begin));
  }

  Code CheckAppend(SequenceHandle handle, std::int64_t position, std::size_t token_count) const {
    if (const Code code = CheckMutable(handle); code != Code::kOk) return code;
    const ReferenceSequence& sequence = *Find(handle);
    const std::int64_t next = sequence.next_pos();
    const std::int64_t last = next + static_cast<std::int64_t>(token_count) - 1;
    const std::int64_t shift = sequence.cells.empty() ? 0 : sequence.cells.back().shift;
    if (token_count == 0 || position != next || last > kLastPos || last - shift > kLastPos + 1) {
      return Code::kInvalidArgument;
    }
    return Code::kOk;
  }
  void Append(SequenceHandle handle, std::span<const TokenId> tokens, std::uint32_t first_id) {
    ReferenceSequence& sequence = sequences.at(handle);
    const bool is_pristine = sequence.pristine == sequence.cells.size();
    for (const TokenId token : tokens) {
      const std::int64_t position = sequence.next_pos();
      const std::uint32_t parent = sequence.cells.empty() ? 0 : sequence.cells.back().k_id;
      const std::int64_t shift = sequence.cells.empty() ? 0 : sequence.cells.back().shift;
      sequence.cells.push_back(
          {token, position, shift, first_id, first_id, parent, position, is_pristine, false});
      ++first_id;
    }
    if (is_pristine) sequence.pristine = static_cast<std::uint32_t>(sequence.cells.size());
    Edited(&sequence, sequence.pristine);
  }

  // Returns the number of leading cells whose content equals the result of computing their tokens
  // from position 0 in order.
  static std::uint32_t TrulyPristine(const ReferenceSequence& sequence) {
    std::uint32_t count = 0;
    std::uint32_t parent = 0;
    for (const ReferenceCell& cell : sequence.cells) {
      if (!cell.in_pristine_prefix || cell.position != count || cell.computed_at != count ||
          cell.parent_id != parent) {
        break;
      }
      parent = cell.k_id;
      ++count;
    }
    return count;
  }

 private:
  std::vector<ReferenceCell> Copied(SequenceHandle source, PosRange range) const {
    std::vector<ReferenceCell> copied;
    for (const ReferenceCell& cell : Find(source)->cells) {
      if (IsIn(cell, range)) copied.push_back(cell);
    }
    return copied;
  }
  static void Note(ReferenceSequence* sequence, int kind, const std::vector<ReferenceCell>& cells,
                   std::int64_t delta) {
    if (cells.empty()) return;
    sequence->edits.push_back({kind, cells.front().position, cells.back().position + 1, delta});
  }
  static std::uint32_t FirstIn(const ReferenceSequence& sequence, PosRange range) {
    std::uint32_t at = 0;
    while (at < sequence.cells.size() && !IsIn(sequence.cells[at], range)) ++at;
    return at;
  }
  static void Edited(ReferenceSequence* sequence, std::uint32_t first_changed) {
    sequence->pristine = std::min(
        {sequence->pristine, first_changed, static_cast<std::uint32_t>(sequence->cells.size())});
    ++sequence->edit_number;
    ++sequence->content_number;
  }
};

}  // namespace kvd
