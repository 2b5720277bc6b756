// MemorySegments: `pool` and `meta` of one memory, newly created or left by an earlier process. A
// memory takes ownership of its segments.
//
// The segments are either files in the daemon's private directory (0700, same uid; the files
// survive the daemon) or anonymous memory (tests and tools in one process).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "engine/memory/geometry.h"
#include "engine/memory/meta_segment.h"
#include "engine/memory/pool_segment.h"
#include "engine/memory/state_files.h"

namespace kvd {

// Checks of a file before it is mapped.

// Checks an open file and returns its size in bytes. Errors: kPermission (not a regular file, owned
// by another user, accessible to group or others), kIo. Every error message begins with `name`.
Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name);

struct MemorySegments {
  MemoryGeometry geometry;
  MetaSegment meta;
  PoolParts pool;

  // Errors: kNoSpace (meta's bytes; the pool's bytes are reserved later, slab by slab), kIo.
  static Result<MemorySegments> CreateAnonymous(const MemoryGeometry& geometry,
                                                const MetaIdentity& identity = {},
                                                std::uint64_t slab_bytes = kSlabBytes);
  // Creates the files of a new pool and "meta.new", which names the pool, mode 0600. The caller
  // publishes "meta.new". Errors: kNoSpace, kIo.
  static Result<MemorySegments> Create(const StateFiles& files, const MemoryGeometry& geometry,
                                       const MetaIdentity& identity,
                                       std::uint64_t slab_bytes = kSlabBytes);
  // Opens the pool of a `meta` that an earlier process left. `geometry` has the counts of the
  // `meta`. Errors: kCorrupt (a part is missing), those of PoolSegment::Open.
  static Result<MemorySegments> Open(const StateFiles& files, MetaSegment meta,
                                     const MemoryGeometry& geometry,
                                     std::uint64_t slab_bytes = kSlabBytes);
};

// The bytes of a part of the pool.
std::uint64_t PartBytes(const PoolBytes& pool, std::size_t part);

}  // namespace kvd
