#include "engine/memory/memory_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kvd {
namespace {

Result<UniqueFd> OpenAnonymous(const char* name) {
  UniqueFd descriptor(::memfd_create(name, MFD_CLOEXEC));
  if (!descriptor) return FailErrno(std::string(name) + ": memfd_create");
  // A memfd is born 0777: anyone who finds it under /proc could open it.
  if (::fchmod(descriptor.get(), 0600) != 0) return FailErrno(std::string(name) + ": fchmod");
  return descriptor;
}

// A new file in place of whatever had its name. O_EXCL: a file that appears in between is not ours.
Result<UniqueFd> CreateFile(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
    return FailErrno(std::string(name) + ": unlink");
  }
  UniqueFd descriptor(
      ::openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!descriptor) return FailErrno(std::string(name) + ": open");
  return descriptor;
}

Result<MemorySegments> Assemble(UniqueFd meta_file, UniqueFd pool_file,
                                const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                std::uint64_t slab_bytes) {
  KVD_TRY(MetaSegment meta, MetaSegment::Create(std::move(meta_file), geometry, model_fingerprint));
  KVD_TRY(PoolSegment pool,
          PoolSegment::Create(std::move(pool_file), geometry.pool.total_bytes, slab_bytes));
  return MemorySegments{geometry, std::move(meta), std::move(pool)};
}

}  // namespace

Result<MemorySegments> MemorySegments::CreateAnonymous(const MemoryGeometry& geometry,
                                                       const FingerprintBytes& model_fingerprint,
                                                       std::uint64_t slab_bytes) {
  KVD_TRY(UniqueFd meta_file, OpenAnonymous("kvd-meta"));
  KVD_TRY(UniqueFd pool_file, OpenAnonymous("kvd-pool"));
  return Assemble(std::move(meta_file), std::move(pool_file), geometry, model_fingerprint,
                  slab_bytes);
}

Result<MemorySegments> MemorySegments::CreateInDirectory(int directory,
                                                         const MemoryGeometry& geometry,
                                                         const FingerprintBytes& model_fingerprint,
                                                         std::uint64_t slab_bytes) {
  KVD_TRY(UniqueFd meta_file, CreateFile(directory, "meta"));
  KVD_TRY(UniqueFd pool_file, CreateFile(directory, "pool"));
  return Assemble(std::move(meta_file), std::move(pool_file), geometry, model_fingerprint,
                  slab_bytes);
}

}  // namespace kvd
