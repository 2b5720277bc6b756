// The bytes are checked in this order: the offsets in the header are used only after its checksum
// and size have been verified; records are read only inside the parts at these offsets, lists only
// inside the arena, and cells only inside their block. Every value is checked before it is used as
// an index or a count.
#include "engine/memory/rebuild.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/ids.h"
#include "base/text.h"
#include "engine/memory/commit_log.h"
#include "engine/model/numeric_form.h"

namespace kvd {
namespace {

using layout::kNoSlot;
using meta_check::Corrupt;
using meta_check::IsZero;
using meta_check::Name;

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

// --------------------------------------------------------------------------------------- snapshots

// Adds the snapshot to the tables. `owner` maps a sequence index to the snapshot that names it.
Status AddSnapshot(ConstMetaView meta, std::uint32_t index, std::vector<std::uint32_t>* owner,
                   DerivedTables* tables) {
  const layout::SnapshotRecord& record = meta.snapshots()[index];
  const std::string name = Name("snapshot", index);
  const std::size_t name_bytes = ::strnlen(record.name, sizeof record.name);
  for (std::size_t at = name_bytes; at < sizeof record.name; ++at) {
    if (record.name[at] != 0) return Corrupt(name + " name", "bytes after its end");
  }
  if (name_bytes == 0) {
    if (record.sequence != 0) return Corrupt(name + " sequence", "not 0 in a free record");
    return {};
  }
  if (record.owner > kOwnerMax) return Corrupt(name + " owner", record.owner);
  if (record.is_public > 1) return Corrupt(name + " is_public", record.is_public);
  if (!IsZero(record.reserved)) return Corrupt(name + " reserved", "not zero");
  const auto handle = static_cast<SequenceHandle>(record.sequence);
  const std::uint32_t sequence = IndexOf(handle);
  if (sequence >= meta.geometry().sequence_capacity ||
      meta.sequences()[sequence].generation != GenerationOf(handle) ||
      (meta.sequences()[sequence].flags & layout::kSequencePublished) == 0) {
    return Corrupt(name + " sequence", Concat(record.sequence, " is not a published sequence"));
  }
  if ((*owner)[sequence] != kNoSlot) {
    return Corrupt(name + " sequence",
                   Concat(record.sequence, " also belongs to another snapshot"));
  }
  (*owner)[sequence] = index;
  const std::string text(record.name, name_bytes);
  if (!tables->snapshots_by_name.emplace(std::pair(text, OwnerId{record.owner}), index).second ||
      (record.is_public != 0 && !tables->public_snapshots.emplace(text, index).second)) {
    return Corrupt(name + " name", "also belongs to another snapshot");
  }
  tables->snapshots.Take(index);
  return {};
}

// ---------------------------------------------------------------------------------------- sessions

Status AddSession(ConstMetaView meta, std::uint32_t index, DerivedTables* tables) {
  const layout::SessionRecord& record = meta.sessions()[index];
  const std::string name = Name("session", index);
  if (record.session == 0) {
    const layout::SessionRecord nothing = {};
    if (std::memcmp(&record, &nothing, sizeof record) != 0) {
      return Corrupt(name, "the record is free but not zero");
    }
    return {};
  }
  if (record.session > kSessionMax) return Corrupt(name + " session", record.session);
  if (record.owner > kOwnerMax) return Corrupt(name + " owner", record.owner);
  for (const layout::AppliedRecord& applied : record.applied) {
    const layout::AppliedRecord nothing = {};
    if (applied.request == 0 && std::memcmp(&applied, &nothing, sizeof applied) != 0) {
      return Corrupt(name + " applied", "the place is free but not zero");
    }
    if (applied.state > layout::kAppliedBegun) return Corrupt(name + " state", applied.state);
    if (applied.created > layout::kForksMax) return Corrupt(name + " created", applied.created);
  }
  if (!tables->sessions_by_id.emplace(record.session, index).second) {
    return Corrupt(name + " session", Concat(record.session, " is also the id of another session"));
  }
  tables->sessions.Take(index);
  return {};
}

}  // namespace

Result<ConstMetaView> ValidateHeader(std::span<const std::byte> meta_bytes) {
  using layout::MetaHeader;
  if (meta_bytes.size() < sizeof(MetaHeader)) {
    return Corrupt("size", Concat(meta_bytes.size(), " bytes, less than a header"));
  }
  if (reinterpret_cast<std::uintptr_t>(meta_bytes.data()) % alignof(MetaHeader) != 0) {
    return Fail(Code::kInvalidArgument, "meta: the bytes are not aligned");
  }
  const auto& header = *reinterpret_cast<const MetaHeader*>(meta_bytes.data());
  if (header.magic != layout::kMetaMagic) return Corrupt("magic", header.magic);
  if (header.version != layout::kLayoutVersion) {
    return Fail(Code::kVersionMismatch, "meta: version: ", header.version, ", this build reads ",
                layout::kLayoutVersion);
  }
  if (header.header_crc != Crc32c(0, meta_bytes.first(offsetof(MetaHeader, header_crc)))) {
    return Corrupt("header_crc", "does not match");
  }
  if (header.header_bytes != sizeof(MetaHeader))
    return Corrupt("header_bytes", header.header_bytes);
  if (header.layout_signature != layout::LayoutSignature()) {
    return Fail(Code::kVersionMismatch, "meta: layout_signature: belongs to another build");
  }
  if (!IsNumericForm(header.numeric_form)) return Corrupt("numeric_form", header.numeric_form);
  if (header.model_name[sizeof header.model_name - 1] != 0) {
    return Corrupt("model_name", "has no end");
  }
  if (header.first_generation == 0) return Corrupt("first_generation", "0");
  if (header.reserved != 0) return Corrupt("reserved", header.reserved);
  if (header.total_bytes != meta_bytes.size()) {
    return Corrupt("total_bytes",
                   Concat(header.total_bytes, ", but the file has ", meta_bytes.size()));
  }
  KVD_TRY(const MetaOffsets expected, LayOut(header.geometry));
  MetaOffsets found{header.commit_offset,
                    header.sequences_offset,
                    header.snapshots_offset,
                    header.sessions_offset,
                    header.histories_offset,
                    header.lists_offset,
                    {},
                    header.total_bytes};
  std::memcpy(found.cells.data(), header.cells_offset, sizeof header.cells_offset);
  if (found.total_bytes != expected.total_bytes) {
    return Corrupt("total_bytes",
                   Concat(found.total_bytes, ", but the geometry needs ", expected.total_bytes));
  }
  if (!(found == expected)) return Corrupt("offsets", "do not match the geometry");
  return ConstMetaView(meta_bytes.data(), expected, header.geometry);
}

Result<Recovery> RecoverTables(ConstMetaView meta, const CellLimits& limits) {
  Recovery recovery{.tables = DerivedTables(meta.geometry()), .dropped = {}};
  DerivedTables& tables = recovery.tables;
  for (std::uint32_t index = 0; index < meta.geometry().sequence_capacity; ++index) {
    KVD_CHECK_OK(meta_check::ValidateRecord(meta, index, &tables.lists));
    const layout::SequenceRecord& record = meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    tables.sequences.Take(index);
    if (Status status = ValidateSequence(meta, index, limits); status) {
      tables.AddReferences(meta, record, HolderOf(record));
      tables.owners.Follow(index, record);
    } else {
      recovery.dropped.push_back({.index = index,
                                  .handle = MakeHandle(index, record.generation),
                                  .snapshot = {},
                                  .error = std::move(status).error()});
    }
  }

  std::vector<std::uint32_t> owner(meta.geometry().sequence_capacity, kNoSlot);
  for (std::uint32_t index = 0; index < meta.geometry().snapshot_capacity; ++index) {
    KVD_CHECK_OK(AddSnapshot(meta, index, &owner, &tables));
  }
  for (std::uint32_t index = 0; index < meta.geometry().sequence_capacity; ++index) {
    if ((meta.sequences()[index].flags & layout::kSequencePublished) != 0 &&
        owner[index] == kNoSlot) {
      return Corrupt(Name("sequence", index) + " flags", "published, but no snapshot names it");
    }
  }
  for (std::uint32_t index = 0; index < meta.geometry().session_capacity; ++index) {
    KVD_CHECK_OK(AddSession(meta, index, &tables));
  }
  for (DroppedSequence& dropped : recovery.dropped) {
    if (owner[dropped.index] != kNoSlot) dropped.snapshot = owner[dropped.index];
  }
  return recovery;
}

Result<DerivedTables> RebuildTables(std::span<const std::byte> meta_bytes) {
  KVD_TRY(ConstMetaView meta, ValidateHeader(meta_bytes));
  AlignedBytes copy;
  if (meta.header().commit_word.load(std::memory_order_acquire) != 0) {
    copy.reset(static_cast<std::byte*>(::operator new(meta_bytes.size(), std::align_val_t{64})));
    std::memcpy(copy.get(), meta_bytes.data(), meta_bytes.size());
    KVD_CHECK_OK(CommitLog::Replay(MetaView(copy.get(), meta.offsets(), meta.geometry())));
    meta = ConstMetaView(copy.get(), meta.offsets(), meta.geometry());
  }
  KVD_TRY(Recovery recovery, RecoverTables(meta));
  if (!recovery.dropped.empty()) return std::unexpected(recovery.dropped.front().error);
  return std::move(recovery.tables);
}

}  // namespace kvd
