// RebuildTables: derives a memory's tables from the bytes of its `meta`, believing none of them.
//
// For attaching after a restart, and for tests. The bytes may come from another program, another
// version or a damaged file: whatever they are, the answer is tables or an error that names the
// field, never a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/memory/derived_tables.h"
#include "engine/memory/meta_segment.h"
#include "shm/error.h"

namespace kvd {

// Checks the header against the size of the bytes and against itself. Errors: kCorrupt,
// kVersionMismatch (another layout).
Result<ConstMetaView> ValidateHeader(std::span<const std::byte> meta_bytes);

// Applies a published commit record first (to a copy of its own), then validates every record,
// list, cell and snapshot. REQUIRES: the bytes are 64-byte aligned and do not change meanwhile.
// Errors: those of ValidateHeader; kCorrupt.
Result<DerivedTables> RebuildTables(std::span<const std::byte> meta_bytes);

// The lists and cells of one live record, without its neighbours. Errors: kCorrupt.
Status ValidateSequence(ConstMetaView meta, std::uint32_t index);

}  // namespace kvd
