// RebuildTables: derives a memory's tables from the bytes of its `meta` without trusting any byte.
//
// RebuildTables is used when a daemon attaches to a `meta` after a restart, and by tests. The bytes
// may come from another program, another version or a damaged file. RebuildTables always returns
// tables or an error that names the field, for any bytes.
//
// The functions distinguish two kinds of damage. Damage that makes the tables as a whole unusable
// (a record's flags, generation or list places; a snapshot that names no published sequence) is an
// error. A sequence whose lists, cells or state are inconsistent is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/derived_tables.h"
#include "engine/memory/list_arena.h"
#include "engine/memory/meta_segment.h"

namespace kvd::meta_check {

// Functions for the checks of a memory's `meta`: error messages, and the check of a sequence's
// record that rebuild.cc makes before it reads the sequence's lists.

// A kCorrupt error with the message "meta: FIELD: TEXT".
inline std::unexpected<Error> Corrupt(const std::string& field, const std::string& text) {
  return Fail(Code::kCorrupt, "meta: ", field, ": ", text);
}
inline std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t found) {
  return Corrupt(field, std::to_string(found));
}
// "TABLE INDEX": the beginning of a field's name.
inline std::string Name(const char* table, std::uint32_t index) {
  return Concat(table, " ", index);
}

template <class T, std::size_t count>
bool IsZero(const T (&values)[count]) {
  for (const T& value : values) {
    if (value != T{}) return false;
  }
  return true;
}

// Checks the fields of a sequence's record whose damage could affect other sequences, for instance
// lists at places that belong to another record. Marks the units of the record's lists as taken in
// `lists`. REQUIRES: the header is valid. Errors: kCorrupt.
Status ValidateRecord(ConstMetaView meta, std::uint32_t index, ListArena* lists);

}  // namespace kvd::meta_check

namespace kvd {

// Checks that the header is consistent and fits the number of bytes. Errors: kCorrupt,
// kVersionMismatch (another layout).
Result<ConstMetaView> ValidateHeader(std::span<const std::byte> meta_bytes);

// Applies a published commit record (to a private copy of the bytes), then validates every record,
// list, cell and snapshot. An inconsistent sequence, which RecoverTables drops, is an error of
// RebuildTables. REQUIRES: the bytes are 64-byte aligned and do not change during the call. Errors:
// those of ValidateHeader; kCorrupt.
Result<DerivedTables> RebuildTables(std::span<const std::byte> meta_bytes);

// Limits of the model, which are narrower than the limits of the layout.
struct CellLimits {
  std::uint32_t vocab_size = std::numeric_limits<std::int32_t>::max();
  std::uint32_t key_forms = layout::kKeyFormsMax;
};

struct DroppedSequence {
  std::uint32_t index = 0;
  SequenceHandle handle = SequenceHandle::kNone;
  std::optional<std::uint32_t> snapshot;  // the snapshot record that names the sequence
  Error error;
};

struct Recovery {
  // The records, names and list units of dropped sequences count as used until the memory has freed
  // the dropped sequences; the cells and slots of dropped sequences count as free.
  DerivedTables tables;
  std::vector<DroppedSequence> dropped;
};

// Derives the tables and leaves out inconsistent sequences. REQUIRES: the header is valid, and no
// commit record is published. Errors: kCorrupt.
Result<Recovery> RecoverTables(ConstMetaView meta, const CellLimits& limits = {});

// Checks the lists, cells and state of one live record, without looking at other records. Errors:
// kCorrupt.
Status ValidateSequence(ConstMetaView meta, std::uint32_t index, const CellLimits& limits = {});

}  // namespace kvd
