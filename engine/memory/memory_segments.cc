#include "engine/memory/memory_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <string>

namespace kvd {

// ---- file checks
Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return FailErrno(name + ": fstat");
  if (!S_ISREG(found.st_mode)) return Fail(Code::kPermission, name, ": not a regular file");
  if (found.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, name, ": belongs to uid ", found.st_uid,
                ", not to the daemon's (", ::geteuid(), ")");
  }
  if ((found.st_mode & 077) != 0)
    return Fail(Code::kPermission, name, ": mode: gives access to group or others");
  return static_cast<std::uint64_t>(found.st_size);
}

// ---- memory segments

namespace {

Result<UniqueFd> OpenAnonymous(const char* name) {
  UniqueFd descriptor(::memfd_create(name, MFD_CLOEXEC));
  if (!descriptor) return FailErrno(std::string(name) + ": memfd_create");
  // A memfd has mode 0777 at first, so any process that finds it under /proc could open it.
  if (::fchmod(descriptor.get(), 0600) != 0) return FailErrno(std::string(name) + ": fchmod");
  return descriptor;
}

// Creates each part that has bytes. open(part) returns the file of a part.
template <class OpenPart>
Result<PoolParts> CreateParts(const PoolBytes& pool, std::uint64_t slab_bytes,
                              const OpenPart& open) {
  PoolParts parts;
  for (std::size_t part = 0; part < PoolParts::kCount; ++part) {
    const std::uint64_t bytes = PartBytes(pool, part);
    if (bytes == 0) continue;
    KVD_TRY(UniqueFd file, open(part));
    KVD_TRY(parts.part(part), PoolSegment::Create(std::move(file), bytes, slab_bytes));
  }
  return parts;
}

}  // namespace

std::uint64_t PartBytes(const PoolBytes& pool, std::size_t part) {
  if (part == PoolParts::kStates) return pool.states;
  if (part == PoolParts::kLogits) return pool.logits;
  return pool.blocks[part];
}

Result<MemorySegments> MemorySegments::CreateAnonymous(const MemoryGeometry& geometry,
                                                       const MetaIdentity& identity,
                                                       std::uint64_t slab_bytes) {
  KVD_TRY(UniqueFd meta_file, OpenAnonymous("kvd-meta"));
  KVD_TRY(MetaSegment meta, MetaSegment::Create(std::move(meta_file), geometry, identity));
  KVD_TRY(PoolParts pool, CreateParts(geometry.pool, slab_bytes,
                                      [](std::size_t) { return OpenAnonymous("kvd-pool"); }));
  return MemorySegments{geometry, std::move(meta), std::move(pool)};
}

Result<MemorySegments> MemorySegments::Create(const StateFiles& files,
                                              const MemoryGeometry& geometry,
                                              const MetaIdentity& identity,
                                              std::uint64_t slab_bytes) {
  KVD_TRY(UniqueFd meta_file, files.Create("meta.new"));
  KVD_TRY(MetaSegment meta, MetaSegment::Create(std::move(meta_file), geometry, identity));
  KVD_TRY(PoolParts pool, CreateParts(geometry.pool, slab_bytes, [&](std::size_t part) {
            return files.Create(StateFiles::PoolFileName(identity.pool_number, part));
          }));
  return MemorySegments{geometry, std::move(meta), std::move(pool)};
}

Result<MemorySegments> MemorySegments::Open(const StateFiles& files, MetaSegment meta,
                                            const MemoryGeometry& geometry,
                                            std::uint64_t slab_bytes) {
  PoolParts pool;
  for (std::size_t part = 0; part < PoolParts::kCount; ++part) {
    const std::uint64_t bytes = PartBytes(geometry.pool, part);
    if (bytes == 0) continue;
    Result<UniqueFd> file =
        files.Open(StateFiles::PoolFileName(meta.view().header().pool_number, part));
    if (!file && file.error().code == Code::kNotFound) {
      return Fail(Code::kCorrupt, file.error().message);
    }
    if (!file) return std::unexpected(std::move(file).error());
    KVD_TRY(pool.part(part), PoolSegment::Open(std::move(*file), bytes, slab_bytes));
  }
  return MemorySegments{geometry, std::move(meta), std::move(pool)};
}

}  // namespace kvd
