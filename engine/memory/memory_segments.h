// MemorySegments: `pool` and `meta` of one memory, freshly created or as an earlier process left
// them; a memory takes them over.
//
// Two homes: files in the daemon's private directory (0700, same uid; they survive the daemon), or
// anonymous memory (tests and tools in one process).
#pragma once

#include <array>
#include <cstdint>

#include "engine/memory/geometry.h"
#include "engine/memory/meta_segment.h"
#include "engine/memory/pool_segment.h"
#include "shm/error.h"

namespace kvd {

using FingerprintBytes = std::array<std::uint8_t, 32>;

struct MemorySegments {
  MemoryGeometry geometry;
  MetaSegment meta;
  PoolSegment pool;

  // Errors: kNoSpace (meta's bytes; the pool's are reserved later, slab by slab), kIo.
  static Result<MemorySegments> CreateAnonymous(const MemoryGeometry& geometry,
                                                const FingerprintBytes& model_fingerprint = {},
                                                std::uint64_t slab_bytes = kSlabBytes);
  // The files "pool" and "meta" in `directory`, mode 0600; "meta" appears last and whole, and what
  // lay there under that name is moved to "meta.bad". REQUIRES: the caller holds the directory's
  // lock file.
  static Result<MemorySegments> CreateInDirectory(int directory, const MemoryGeometry& geometry,
                                                  const FingerprintBytes& model_fingerprint = {},
                                                  std::uint64_t slab_bytes = kSlabBytes);
  // Those files as an earlier process left them, checked as far as the header of "meta" goes.
  // Errors: kNotFound (there is no "meta"); those of MetaSegment::Open and PoolSegment::Open.
  static Result<MemorySegments> OpenInDirectory(int directory, const MemoryGeometry& geometry,
                                                const FingerprintBytes& model_fingerprint,
                                                bool checks_boot,
                                                std::uint64_t slab_bytes = kSlabBytes);
};

}  // namespace kvd
