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

namespace kvd {

// Checks of a file before it is mapped.

// Checks an open file and returns its size in bytes. Errors: kPermission (not a regular file, owned
// by another user, accessible to group or others), kIo. Every error message begins with `name`.
Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name);

using FingerprintBytes = std::array<std::uint8_t, 32>;

struct MemorySegments {
  MemoryGeometry geometry;
  MetaSegment meta;
  PoolSegment pool;

  // Errors: kNoSpace (meta's bytes; the pool's bytes are reserved later, slab by slab), kIo.
  static Result<MemorySegments> CreateAnonymous(const MemoryGeometry& geometry,
                                                const FingerprintBytes& model_fingerprint = {},
                                                std::uint64_t slab_bytes = kSlabBytes);
  // Creates the files "pool" and "meta" in `directory`, mode 0600. An existing "meta" is renamed to
  // "meta.bad"; the new "meta" appears last and complete. REQUIRES: the caller holds the
  // directory's lock file.
  static Result<MemorySegments> CreateInDirectory(int directory, const MemoryGeometry& geometry,
                                                  const FingerprintBytes& model_fingerprint = {},
                                                  std::uint64_t slab_bytes = kSlabBytes);
  // Opens the files "pool" and "meta" that an earlier process left in `directory`. Checks only the
  // header of "meta". Errors: kNotFound (there is no "meta"); those of MetaSegment::Open and
  // PoolSegment::Open.
  static Result<MemorySegments> OpenInDirectory(int directory, const MemoryGeometry& geometry,
                                                const FingerprintBytes& model_fingerprint,
                                                bool checks_boot,
                                                std::uint64_t slab_bytes = kSlabBytes);
};

}  // namespace kvd
