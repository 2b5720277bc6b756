// RebuildTables: derives a memory's tables from the bytes of its `meta`, believing none of them.
//
// For attaching after a restart, and for tests. The bytes may come from another program, another
// version or a damaged file: whatever they are, the answer is tables or an error that names the
// field, never a crash.
//
// Two kinds of damage: what makes the tables as a whole worth nothing (a record's flags, generation
// or the place of its lists; a snapshot that names no published sequence) is an error; a sequence
// whose lists, cells or state do not hold together is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory/derived_tables.h"
#include "engine/memory/meta_segment.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// Checks the header against the size of the bytes and against itself. Errors: kCorrupt,
// kVersionMismatch (another layout).
Result<ConstMetaView> ValidateHeader(std::span<const std::byte> meta_bytes);

// Applies a published commit record first (to a copy of its own), then validates every record,
// list, cell and snapshot; a sequence that would be dropped is an error. REQUIRES: the bytes are 64-byte aligned and do not change meanwhile.
// Errors: those of ValidateHeader; kCorrupt.
Result<DerivedTables> RebuildTables(std::span<const std::byte> meta_bytes);

// What the model allows, beyond what the layout does.
struct CellLimits {
  std::uint32_t vocab_size = std::numeric_limits<std::int32_t>::max();
  std::uint32_t key_forms = layout::kKeyFormsMax;
};

struct DroppedSequence {
  std::uint32_t index = 0;
  SequenceHandle handle = SequenceHandle::kNone;
  std::optional<std::uint32_t> snapshot;  // the record that names it
  Error error;
};

struct Recovery {
  // The dropped ones hold their records, names and list room, and no cells or slots, until the
  // memory has freed them.
  DerivedTables tables;
  std::vector<DroppedSequence> dropped;
};

// REQUIRES: the header is valid, and no commit record is published. Errors: kCorrupt.
Result<Recovery> RecoverTables(ConstMetaView meta, const CellLimits& limits = {});

// The lists, cells and state of one live record, without its neighbours. Errors: kCorrupt.
Status ValidateSequence(ConstMetaView meta, std::uint32_t index, const CellLimits& limits = {});

}  // namespace kvd
