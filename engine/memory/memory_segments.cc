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

Result<UniqueFd> OpenFile(int directory, const char* name, int flags) {
  UniqueFd descriptor(::openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (descriptor) return descriptor;
  if (errno == ENOENT) return Fail(Code::kNotFound, std::string(name) + ": no such file");
  if (errno == ELOOP) return Fail(Code::kPermission, std::string(name) + ": a symbolic link");
  return FailErrno(std::string(name) + ": open");
}

// A new file in place of whatever had its name. O_EXCL: a file that appears in between is not ours.
Result<UniqueFd> CreateFile(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
    return FailErrno(std::string(name) + ": unlink");
  }
  return OpenFile(directory, name, O_CREAT | O_EXCL);
}

// False: there is no such file.
Result<bool> Rename(int directory, const char* from, const char* to) {
  if (::renameat(directory, from, directory, to) == 0) return true;
  if (errno == ENOENT) return false;
  return FailErrno(std::string(from) + ": rename to " + to);
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
  // A process that is killed here leaves no meta, or this one: never an old one beside a new pool,
  // nor half of one.
  KVD_CHECK_OK(Rename(directory, "meta", "meta.bad"));
  KVD_TRY(UniqueFd meta_file, CreateFile(directory, "meta.new"));
  KVD_TRY(UniqueFd pool_file, CreateFile(directory, "pool"));
  KVD_TRY(MemorySegments segments, Assemble(std::move(meta_file), std::move(pool_file), geometry,
                                            model_fingerprint, slab_bytes));
  KVD_CHECK_OK(Rename(directory, "meta.new", "meta"));
  return segments;
}

Result<MemorySegments> MemorySegments::OpenInDirectory(int directory,
                                                       const MemoryGeometry& geometry,
                                                       const FingerprintBytes& model_fingerprint,
                                                       bool checks_boot, std::uint64_t slab_bytes) {
  // O_NONBLOCK: a pipe of that name does not hold us up.
  KVD_TRY(UniqueFd meta_file, OpenFile(directory, "meta", O_NONBLOCK));
  KVD_TRY(MetaSegment meta,
          MetaSegment::Open(std::move(meta_file), geometry, model_fingerprint, checks_boot));
  Result<UniqueFd> pool_file = OpenFile(directory, "pool", O_NONBLOCK);
  if (!pool_file && pool_file.error().code == Code::kNotFound) {
    return Fail(Code::kCorrupt, pool_file.error().message);
  }
  if (!pool_file) return std::unexpected(std::move(pool_file).error());
  KVD_TRY(PoolSegment pool,
          PoolSegment::Open(std::move(*pool_file), geometry.pool.total_bytes, slab_bytes));
  return MemorySegments{geometry, std::move(meta), std::move(pool)};
}

}  // namespace kvd
