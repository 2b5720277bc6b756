// Cells that a sequence gives back, and whose tokens it keeps.
#include <algorithm>
#include <vector>

#include "engine/memory/cell_edit.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/sequences.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

// Whether the sequence whose extent covers `range` is the only one that refers to the block, and
// refers to no other cell of it.
bool IsAlone(const BlockTable& table, BlockRange range) {
  const std::uint64_t covered = ((std::uint64_t{1} << range.count) - 1) << range.first;
  return table.live_mask(range.block) == covered && table.CountShared(range) == 0;
}

// Whether giving back the cells from ordinal `first` on frees a block.
bool FreesBlock(const MemoryStore& store, const layout::SequenceRecord& record, std::uint32_t first)
    KVD_REQUIRES(store.mutex) {
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (store.is_cross(group)) continue;
    const ExtentView view = store.ViewOf(record, group);
    for (std::size_t index = view.entries.size(); index-- > 0;) {
      if (view.entries[index].start < first) break;
      if (IsAlone(store.tables.blocks[group], view.RangeAt(index))) return true;
    }
  }
  return false;
}

bool FreesState(const MemoryStore& store, const layout::SequenceRecord& record, std::uint32_t first)
    KVD_REQUIRES(store.mutex) {
  return first == 0 && record.state_slot != layout::kNoSlot &&
         store.tables.states.CountHeld(record.state_slot) == 1;
}

// Whether sequences have neither windows nor states, so that they can end after any cell.
bool IsPlain(const MemoryStore& store) KVD_REQUIRES(store.mutex) {
  return store.group_count() == 1 && !store.has_state();
}

// Whether the sequence can end after `cell_count` cells and be continued.
bool CanEndAt(const MemoryStore& store, const layout::SequenceRecord& record,
              std::uint32_t cell_count) KVD_REQUIRES(store.mutex) {
  if (cell_count == 0) return true;
  const bool drops_cells =
      std::ranges::any_of(std::span(record.first_cell).first(store.group_count()),
                          [](std::uint32_t first) { return first > 0; });
  return !drops_cells && StateAt(store, record, cell_count).has_value();
}

// The first ordinal from which on the sequence would give its cells back, if those before `kept`
// should stay: cells before `kept` that share no block with another sequence do not keep the block.
std::uint32_t FirstGiven(const MemoryStore& store, const layout::SequenceRecord& record,
                         std::uint32_t kept) KVD_REQUIRES(store.mutex) {
  std::uint32_t first = std::min(kept, record.cell_count);
  const ExtentView view = store.ViewOf(record);
  if (first < record.cell_count && IsPlain(store)) {
    const std::size_t index = FindExtent(view, first);
    if (IsAlone(store.tables.blocks[0], view.RangeAt(index))) first = view.entries[index].start;
  }
  return CanEndAt(store, record, first) ? first : 0;
}

std::vector<TokenId> TokensFrom(const MemoryStore& store, const layout::SequenceRecord& record,
                                std::uint32_t first) KVD_REQUIRES(store.mutex) {
  std::vector<TokenId> tokens;
  const ExtentView view = store.ViewOf(record);
  for (std::size_t index = FindExtent(view, first); index < view.entries.size(); ++index) {
    const layout::Extent& extent = view.entries[index];
    const layout::CellRecord* const cells = store.meta.cells(0, extent.block) + extent.first;
    for (std::uint32_t at = std::max(first, extent.start); at < view.EndOf(index); ++at) {
      tokens.push_back(cells[at - extent.start].token);
    }
  }
  return tokens;
}

}  // namespace

std::optional<GivableCells> Sequences::FindGivable(const FoundSequence& found,
                                                   std::uint32_t kept) const {
  const layout::SequenceRecord& record = *found.record;
  constexpr std::uint32_t kNever =
      layout::kSequenceRetained | layout::kSequencePinned | layout::kSequencePublished;
  if ((record.flags & kNever) != 0 || record.cross_cells != 0 ||
      record.pristine_cells != record.cell_count) {
    return std::nullopt;
  }
  const auto frees = [&](std::uint32_t first) {
    store_.mutex.AssertHeld();
    return first < record.cell_count &&
           (FreesBlock(store_, record, first) || FreesState(store_, record, first));
  };
  const auto cells_from = [&](std::uint32_t first) {
    return GivableCells{.first = first, .count = record.cell_count - first};
  };
  if (record.given.entry_count != 0) {  // the list of tokens does not grow at its beginning
    const std::uint32_t first = record.given_from;
    if (!CanEndAt(store_, record, first) || !frees(first)) return std::nullopt;
    return cells_from(first);
  }
  if (const std::uint32_t first = FirstGiven(store_, record, kept); frees(first)) {
    return cells_from(first);
  }
  // Where a state is kept at the prompt's end, the cells behind may free nothing, and all do.
  if (IsPlain(store_) || !frees(0)) return std::nullopt;
  return cells_from(0);
}

std::optional<GivableCells> Sequences::FindGivable(SequenceHandle handle,
                                                   std::uint32_t kept) const {
  const MutexLock lock(store_.mutex);
  const Result<FoundSequence> found = store_.Find(handle);
  return found ? FindGivable(*found, kept) : std::nullopt;
}

Status Sequences::GiveBack(SequenceHandle handle, std::uint32_t kept) {
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.Find(handle));
    const std::optional<GivableCells> cells = FindGivable(found, kept);
    if (!cells) return Fail(Code::kUnsupported, HandleText(handle), ": gives no cells back");
    const layout::SequenceRecord& old = *found.record;
    Transaction transaction(store_);
    KVD_TRY(layout::SequenceRecord record, CutTail(store_, transaction, found.index, cells->first));
    // The tokens stay, so their request and their sampler do.
    record.request = old.request;
    record.request_session = old.request_session;
    record.request_first_cell = old.request_first_cell;
    record.sampler = old.sampler;
    if (old.given.entry_count == 0) {
      KVD_TRY(record.given, transaction.WriteTokens(TokensFrom(store_, old, cells->first)));
      record.given_from = cells->first;
    }
    transaction.Put(found.index, record, Change::kEdited);
    KVD_CHECK_OK(transaction.Commit());
  }
  store_.ReturnUnusedSlabs();
  return {};
}

Result<std::vector<TokenId>> Sequences::GivenTokens(SequenceHandle handle) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  const layout::SequenceRecord& record = *found.record;
  const auto given = store_.meta.tokens(record.given);
  if (given.empty()) return std::vector<TokenId>{};
  const auto left = given.subspan(record.cell_count - record.given_from);
  return std::vector<TokenId>(left.begin(), left.end());
}

Status Sequences::ForgetGiven(SequenceHandle handle) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  if (found.record->given.entry_count == 0) return {};
  layout::SequenceRecord record = *found.record;
  record.given = kEmptyList;
  record.given_from = 0;
  Transaction transaction(store_);
  transaction.EndRequest(&record);
  record.sampler.grammar_begin = std::min(record.sampler.grammar_begin, record.cell_count);
  transaction.Put(found.index, record, Change::kFacts);
  return transaction.Commit();
}

}  // namespace kvd
