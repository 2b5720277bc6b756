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

Result<UniqueFd> OpenFile(int directory, const char* name, int flags) {
  UniqueFd descriptor(::openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (descriptor) return descriptor;
  if (errno == ENOENT) return Fail(Code::kNotFound, name, ": no such file");
  if (errno == ELOOP) return Fail(Code::kPermission, name, ": a symbolic link");
  return FailErrno(std::string(name) + ": open");
}

// Creates a new file and removes an existing one of that name. Because of O_EXCL, the function
// fails if another process creates the file after the removal.
Result<UniqueFd> CreateFile(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
    return FailErrno(std::string(name) + ": unlink");
  }
  return OpenFile(directory, name, O_CREAT | O_EXCL);
}

// Returns false if there is no such file.
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
  // After a crash in this function the directory has no `meta` or the complete new `meta`. The
  // directory never has an old `meta` with a new pool, and never a partial `meta`.
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
  // With O_NONBLOCK, the open does not block if "meta" is a pipe.
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
