// Places: a used block or slot below the new end keeps its number; the others get the lowest
// numbers that the old state does not use. The mapping of blocks is injective, so a list in normal
// form stays in normal form.
#include "engine/memory/resize.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/memory/rebuild.h"

namespace kvd {
namespace {

constexpr std::uint32_t kEntriesInUnit = layout::kListUnitBytes / sizeof(layout::Extent);

bool IsLive(const layout::SequenceRecord& record) {
  return (record.flags & layout::kSequenceLive) != 0;
}
bool IsHeld(const layout::SequenceRecord& record) {
  return IsLive(record) && HolderOf(record).is_held;
}

std::uint32_t UnitsOf(std::uint32_t entry_count, bool is_exact) {
  return is_exact ? (entry_count + kEntriesInUnit - 1) / kEntriesInUnit : ListUnitsFor(entry_count);
}

std::string NameOfPart(std::size_t part) {
  if (part == PoolParts::kStates) return "state slots";
  return part == 0 ? std::string("blocks") : Concat("blocks of group ", part);
}

}  // namespace

HeldCounts CountHeld(ConstMetaView meta,
                     const std::function<bool(std::uint64_t session)>& returns) {
  HeldCounts counts;
  for (const layout::SequenceRecord& record : meta.sequences()) {
    if (!IsHeld(record)) continue;
    if ((record.flags & layout::kSequencePublished) != 0) {
      ++counts.published;
    } else if ((record.flags & layout::kSequencePinned) != 0) {
      ++counts.pinned;
    } else if (!returns || returns(record.owner_session)) {
      ++counts.live;
    } else {
      continue;
    }
    counts.tokens += record.cell_count;
  }
  return counts;
}

std::string HeldText(const HeldCounts& counts) {
  return Concat(counts.live, " live, ", counts.pinned, " pinned and ", counts.published,
                " published sequences with ", counts.tokens, " tokens");
}

ConstMetaView Resizing::old() const {
  const MemoryGeometry& geometry = from_.geometry();
  return {from_.meta_bytes().data(), geometry.offsets, geometry.meta};
}

std::uint32_t Resizing::OldCount(std::size_t part) const {
  const layout::MetaGeometry& meta = from_.geometry().meta;
  if (part == PoolParts::kStates) return meta.state_slot_count;
  return part == PoolParts::kLogits ? meta.logits_row_count : meta.block_count[part];
}

std::uint32_t Resizing::NewCount(std::size_t part) const {
  const layout::MetaGeometry& meta = to_.meta;
  if (part == PoolParts::kStates) return meta.state_slot_count;
  return part == PoolParts::kLogits ? meta.logits_row_count : meta.block_count[part];
}

bool Resizing::IsUsed(std::size_t part, std::uint32_t number) const {
  const DerivedTables& tables = from_.derived();
  if (part == PoolParts::kStates) return tables.states.is_used(number);
  return part == PoolParts::kLogits ? tables.logits.is_used(number)
                                    : tables.blocks[part].is_used(number);
}

bool Resizing::IsFree(std::size_t part, std::uint32_t number) const {
  if (part == PoolParts::kStates) return from_.is_free_state(number);
  return part == PoolParts::kLogits ? from_.is_free_logits(number)
                                    : from_.is_free_block(static_cast<std::uint32_t>(part), number);
}

std::uint32_t Resizing::CountUsed(std::size_t part) const {
  std::uint32_t used = 0;
  for (std::uint32_t number = 0; number < OldCount(part); ++number) used += IsUsed(part, number);
  return used;
}

template <class Counts>
std::uint32_t Resizing::EndOfSequences(const Counts& counts) const {
  const auto records = old().sequences();
  std::size_t end = records.size();
  while (end > 0 && !counts(records[end - 1])) --end;
  return static_cast<std::uint32_t>(end);
}

std::uint64_t Resizing::CountListUnits(bool is_exact, bool held_only) const {
  std::uint64_t units = 0;
  for (const layout::SequenceRecord& record : old().sequences()) {
    if (held_only ? !IsHeld(record) : !IsLive(record)) continue;
    for (const layout::ListRoot& root : record.extents)
      units += UnitsOf(root.entry_count, is_exact);
    units += UnitsOf(record.checkpoints.entry_count, is_exact);
    units += UnitsOf(ExtentsForTokens(record.given.entry_count), is_exact);
  }
  return units;
}

Status Resizing::CheckHeld() const {
  const DerivedTables& tables = from_.derived();
  const auto refuse = [&](const std::string& flag, const std::string& what, std::uint64_t held,
                          std::uint64_t wanted) -> Status {
    if (held <= wanted) return {};
    return Fail(Code::kConflict, flag, ": ", wanted, " ", what, ", but ", held,
                " are in use by sequences that stay: ", HeldText(CountHeld(old())));
  };
  for (std::uint32_t group = 0; group < to_.meta.group_count; ++group) {
    const std::uint64_t held =
        tables.blocks[group].used_blocks() - tables.blocks[group].reclaimable_blocks();
    if (held > NewCount(group)) {
      return refuse("-c", NameOfPart(group) + " of 32 cells", held, NewCount(group));
    }
  }
  KVD_CHECK_OK(refuse("--state-slots", "state slots",
                      CountUsed(PoolParts::kStates) - tables.states.reclaimable_slots(),
                      NewCount(PoolParts::kStates)));
  KVD_CHECK_OK(
      refuse("--max-sequences", "records", EndOfSequences(IsHeld), to_.meta.sequence_capacity));
  KVD_CHECK_OK(
      refuse("-c", "units of lists", CountListUnits(true, true), to_.meta.list_unit_count));
  std::uint32_t end = 0;
  const auto snapshots = old().snapshots();
  for (std::uint32_t at = 0; at < snapshots.size(); ++at) {
    if (snapshots[at].name[0] != 0) end = at + 1;
  }
  KVD_CHECK_OK(refuse("snapshots", "records", end, to_.meta.snapshot_capacity));
  end = 0;
  const auto sessions = old().sessions();
  for (std::uint32_t at = 0; at < sessions.size(); ++at) {
    if (sessions[at].session != 0) end = at + 1;
  }
  return refuse("sessions", "records", end, to_.meta.session_capacity);
}

bool Resizing::Fits() const {
  const DerivedTables& tables = from_.derived();
  for (std::uint32_t group = 0; group < to_.meta.group_count; ++group) {
    if (tables.blocks[group].used_blocks() > NewCount(group)) return false;
  }
  return CountUsed(PoolParts::kStates) <= NewCount(PoolParts::kStates) &&
         EndOfSequences(IsLive) <= to_.meta.sequence_capacity &&
         CountListUnits(true, false) <= to_.meta.list_unit_count;
}

Result<std::uint32_t> Resizing::Evict() {
  std::uint32_t evicted = 0;
  // A retained sequence whose record does not exist afterwards goes, however useful it is.
  const auto records = old().sequences();
  for (std::uint32_t index = to_.meta.sequence_capacity; index < records.size(); ++index) {
    if (!IsLive(records[index])) continue;
    KVD_CHECK_OK(from_.sequences().Drop(MakeHandle(index, records[index].generation)));
    ++evicted;
  }
  while (!Fits()) {
    if (!from_.EvictLeast()) {
      return Fail(Code::kConflict, "-c: ", NewCount(0), " blocks of 32 cells and ",
                  to_.meta.list_unit_count,
                  " units of lists do not hold what stays: ", HeldText(CountHeld(old())));
    }
    ++evicted;
  }
  return evicted;
}

Result<std::uint32_t> Resizing::CopyBehindEnd(const StateFiles& files) {
  std::uint32_t copied = 0;
  for (std::size_t part = 0; part < PoolParts::kCount; ++part) {
    Places& places = places_[part];
    places.assign(OldCount(part), layout::kNoSlot);
    std::uint32_t next = 0;  // no number below it is free
    for (std::uint32_t number = 0; number < places.size(); ++number) {
      if (!IsUsed(part, number)) continue;
      if (number < NewCount(part)) {
        places[number] = number;
        continue;
      }
      while (next < NewCount(part) && !IsFree(part, next)) ++next;
      if (next == NewCount(part)) {
        if (part == PoolParts::kLogits) continue;
        return Fail(Code::kInternal, NameOfPart(part), ": no place for ", number);
      }
      KVD_CHECK_OK(files.Step("copy"));
      KVD_CHECK_OK(from_.Claim(part, next));
      const std::span<std::byte> target = from_.ItemBytes(part, next);
      if (!target.empty()) {
        std::memcpy(target.data(), from_.ItemBytes(part, number).data(), target.size());
      }
      places[number] = next++;
      ++copied;
    }
  }
  return copied;
}

Status Resizing::GrowFiles(const StateFiles& files) const {
  for (std::size_t part = 0; part < PoolParts::kCount; ++part) {
    const std::uint64_t bytes = PartBytes(to_.pool, part);
    if (bytes <= PartBytes(from_.geometry().pool, part)) continue;
    KVD_CHECK_OK(files.Step("grow"));
    KVD_TRY(const UniqueFd file,
            files.Open(StateFiles::PoolFileName(old().header().pool_number, part)));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
      return FailErrno(Concat("pool: ", bytes, " bytes"));
    }
  }
  return {};
}

// Above the generations of all records that the new `meta` does not have.
std::uint32_t Resizing::FirstGeneration() const {
  std::uint32_t first = old().header().first_generation;
  const auto records = old().sequences();
  for (std::size_t index = to_.meta.sequence_capacity; index < records.size(); ++index) {
    first = std::max(first, records[index].generation);
  }
  return first;
}

void Resizing::WriteCells(const MetaView& meta) const {
  for (std::uint32_t group = 0; group < to_.meta.group_count; ++group) {
    const BlockTable& table = from_.derived().blocks[group];
    for (std::uint32_t block = 0; block < places_[group].size(); ++block) {
      const std::uint32_t place = places_[group][block];
      if (place == layout::kNoSlot) continue;
      const layout::CellRecord* const cells = old().cells(group, block);
      for (std::uint32_t cell = 0; cell < layout::kBlockCells; ++cell) {
        if ((table.live_mask(block) >> cell & 1) == 0) continue;
        layout::CellRecord record = cells[cell];
        if (place != block) {
          record.check =
              CellCheck(record.token, record.stored_pos, group, place, cell, record.key_form);
        }
        meta.cells(group, place)[cell] = record;
      }
    }
  }
}

// Copies the entries of a list as they are.
layout::ListRoot Resizing::PutList(const MetaView& meta, const layout::ListRoot& root,
                                   bool is_exact, std::uint32_t* next_unit) const {
  if (root.entry_count == 0) return kEmptyList;
  const layout::ListRoot put{*next_unit, UnitsOf(root.entry_count, is_exact), root.entry_count, 0};
  *next_unit += put.capacity_units;
  std::ranges::copy(old().entries(root), meta.list(put.first_unit));
  return put;
}

layout::ListRoot Resizing::PutTokens(const MetaView& meta, const layout::ListRoot& root,
                                     bool is_exact, std::uint32_t* next_unit) const {
  if (root.entry_count == 0) return kEmptyList;
  const layout::ListRoot put{*next_unit, UnitsOf(ExtentsForTokens(root.entry_count), is_exact),
                             root.entry_count, root.crc};
  *next_unit += put.capacity_units;
  std::ranges::copy(old().tokens(root), meta.token_list(put.first_unit));
  return put;
}

void Resizing::WriteSequences(const MetaView& meta) const {
  const bool is_exact = CountListUnits(false, false) > to_.meta.list_unit_count;
  const auto place_of = [&](std::size_t part, std::uint32_t number) {
    return number == layout::kNoSlot ? number : places_[part][number];
  };
  std::uint32_t next_unit = 0;
  const std::uint32_t count =
      std::min(from_.geometry().meta.sequence_capacity, to_.meta.sequence_capacity);
  for (std::uint32_t index = 0; index < count; ++index) {
    const layout::SequenceRecord& from = old().sequences()[index];
    layout::SequenceRecord record = from;
    if (!IsLive(from)) {
      // Only the generation of a free record is committed.
      meta.sequences()[index].generation = from.generation;
      continue;
    }
    for (std::uint32_t group = 0; group < to_.meta.group_count; ++group) {
      record.extents[group] = PutList(meta, from.extents[group], is_exact, &next_unit);
      const std::span<layout::Extent> entries = meta.entries(record.extents[group]);
      for (layout::Extent& extent : entries) extent.block = places_[group][extent.block];
      if (!entries.empty()) record.extents[group].crc = Crc32c(0, std::as_bytes(entries));
    }
    record.checkpoints = PutList(meta, from.checkpoints, is_exact, &next_unit);
    const std::span<layout::Checkpoint> checkpoints = meta.checkpoints(record.checkpoints);
    for (layout::Checkpoint& checkpoint : checkpoints) {
      checkpoint.state_slot = place_of(PoolParts::kStates, checkpoint.state_slot);
    }
    if (!checkpoints.empty()) record.checkpoints.crc = Crc32c(0, std::as_bytes(checkpoints));
    record.given = PutTokens(meta, from.given, is_exact, &next_unit);
    record.state_slot = place_of(PoolParts::kStates, from.state_slot);
    record.logits_slot = place_of(PoolParts::kLogits, from.logits_slot);
    meta.sequences()[index] = record;
    std::ranges::copy(old().history(index), meta.history(index).begin());
  }
}

Status Resizing::WriteMeta(const StateFiles& files) const {
  const layout::MetaHeader& header = old().header();
  MetaIdentity identity{.model_name = header.model_name,
                        .pool_number = header.pool_number,
                        .first_generation = FirstGeneration()};
  std::ranges::copy(header.model_fingerprint, identity.model_fingerprint.begin());
  KVD_TRY(UniqueFd file, files.Create("meta.new"));
  KVD_TRY(const MetaSegment segment, MetaSegment::Create(std::move(file), to_, identity));
  KVD_CHECK_OK(files.Step("write"));
  const MetaView meta = segment.view();
  meta.header().numeric_form = header.numeric_form;
  WriteCells(meta);
  WriteSequences(meta);
  KVD_CHECK_OK(files.Step("write"));
  const auto copy = [](auto from, auto to) {
    std::ranges::copy(from.first(std::min(from.size(), to.size())), to.begin());
  };
  copy(old().snapshots(), meta.snapshots());
  copy(old().sessions(), meta.sessions());
  // The old state is given up only for a new one that a start accepts.
  const Result<DerivedTables> tables = RebuildTables(meta.bytes());
  if (!tables) return Fail(Code::kInternal, "meta.new: ", tables.error().message);
  return {};
}

}  // namespace kvd
