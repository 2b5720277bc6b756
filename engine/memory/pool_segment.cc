// Invariant: unused_slabs is the number of slabs whose word equals kReserved: reserved and without
// a use. The thread whose atomic operation sets a word to kReserved or changes it from kReserved
// updates the counter. AddUse and PunchUnused never run at the same time, so a slab that
// PunchUnused finds without a use has no use until it is punched.
#include "engine/memory/pool_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "engine/memory/memory_segments.h"

namespace kvd {

Result<PoolSegment> PoolSegment::Create(UniqueFd descriptor, std::uint64_t pool_bytes,
                                        std::uint64_t slab_bytes) {
  if (::ftruncate(descriptor.get(), static_cast<off_t>(pool_bytes)) != 0) {
    if (errno == ENOSPC || errno == EFBIG) {
      return Fail(Code::kNoSpace, "pool: ", pool_bytes, " bytes: ", std::strerror(errno));
    }
    return FailErrno("pool: ftruncate");
  }
  return Map(std::move(descriptor), pool_bytes, slab_bytes);
}

Result<PoolSegment> PoolSegment::Open(UniqueFd descriptor, std::uint64_t pool_bytes,
                                      std::uint64_t slab_bytes) {
  KVD_TRY(const std::uint64_t file_bytes, CheckOwnFile(descriptor.get(), "pool"));
  if (file_bytes < pool_bytes) {
    return Fail(Code::kCorrupt, "pool: size: ", file_bytes, " bytes, but the geometry needs ",
                pool_bytes);
  }
  if (file_bytes > pool_bytes &&
      ::ftruncate(descriptor.get(), static_cast<off_t>(pool_bytes)) != 0) {
    return FailErrno("pool: ftruncate");
  }
  return Map(std::move(descriptor), pool_bytes, slab_bytes);
}

Result<PoolSegment> PoolSegment::Map(UniqueFd descriptor, std::uint64_t pool_bytes,
                                     std::uint64_t slab_bytes) {
  PoolSegment segment;
  KVD_TRY(segment.mapping_, Mapping<kReadWrite>::MapRange(descriptor.get(), 0, pool_bytes));
  segment.descriptor_ = std::move(descriptor);
  segment.pool_bytes_ = pool_bytes;
  segment.slab_bytes_ = std::min(slab_bytes, pool_bytes);
  segment.spare_slabs_ = slab_bytes < kSlabBytes
                             ? 1
                             : static_cast<std::int64_t>(std::max(kSpareBytes / slab_bytes, 1ul));
  segment.state_ = std::make_unique<State>(
      static_cast<std::size_t>((pool_bytes + segment.slab_bytes_ - 1) / segment.slab_bytes_));
  // Large pages reduce page faults and TLB misses if the file system supports them; a failure of
  // madvise is harmless.
  (void)::madvise(segment.mapping_.data(), segment.mapping_.byte_count(), MADV_HUGEPAGE);
  return segment;
}

std::uint64_t PoolSegment::SlabBytesAt(std::size_t slab) const {
  return std::min(slab_bytes_, pool_bytes_ - slab * slab_bytes_);
}

void PoolSegment::AddUse(std::uint64_t offset, std::uint64_t byte_count) {
  for (std::size_t slab = offset / slab_bytes_; slab <= (offset + byte_count - 1) / slab_bytes_;
       ++slab) {
    if (state_->slabs[slab].fetch_add(1, std::memory_order_relaxed) == kReserved) {
      state_->unused_slabs.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void PoolSegment::DropUse(std::uint64_t offset, std::uint64_t byte_count) {
  for (std::size_t slab = offset / slab_bytes_; slab <= (offset + byte_count - 1) / slab_bytes_;
       ++slab) {
    const std::uint32_t before = state_->slabs[slab].fetch_sub(1, std::memory_order_release);
    KVD_ASSERT((before & ~kReserved) != 0);
    if (before == (kReserved | 1)) state_->unused_slabs.fetch_add(1, std::memory_order_relaxed);
  }
}

Status PoolSegment::EnsureReserved(std::uint64_t offset, std::uint64_t byte_count) {
  for (std::size_t slab = offset / slab_bytes_; slab <= (offset + byte_count - 1) / slab_bytes_;
       ++slab) {
    std::atomic<std::uint32_t>& word = state_->slabs[slab];
    if ((word.load(std::memory_order_relaxed) & kReserved) != 0) continue;
    const std::uint64_t bytes = SlabBytesAt(slab);
    int failed = Reserve(slab * slab_bytes_, bytes);
    if (failed == ENOSPC && state_->unused_slabs.load(std::memory_order_relaxed) > 0) {
      PunchUnusedExcept(0);
      failed = Reserve(slab * slab_bytes_, bytes);
    }
    if (failed == ENOSPC || failed == EFBIG || failed == ENOMEM) {
      return Fail(Code::kNoSpace, "pool: ", bytes,
                  " more bytes could not be reserved in addition to ", reserved_bytes(), " of ",
                  pool_bytes_, ": ", std::strerror(failed));
    }
    if (failed != 0) {
      errno = failed;
      return FailErrno("pool: fallocate");
    }
    state_->reserved_bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (word.fetch_or(kReserved, std::memory_order_relaxed) == 0) {
      state_->unused_slabs.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return {};
}

int PoolSegment::Reserve(std::uint64_t offset, std::uint64_t byte_count) {
  int failed = 0;
  do {
    failed = ::fallocate(descriptor_.get(), 0, static_cast<off_t>(offset),
                         static_cast<off_t>(byte_count)) == 0
                 ? 0
                 : errno;
  } while (failed == EINTR);
  return failed;
}

bool PoolSegment::Punch(std::uint64_t offset, std::uint64_t byte_count) {
  return ::fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(byte_count)) == 0;
}

Status PoolSegment::RecoverReserved() {
  const std::size_t slab_count = state_->slabs.size();
  for (std::size_t slab = 0; slab < slab_count;) {
    if (state_->slabs[slab].load(std::memory_order_relaxed) != 0) {
      KVD_CHECK_OK(EnsureReserved(slab * slab_bytes_, SlabBytesAt(slab)));
      ++slab;
      continue;
    }
    // A slab that cannot be returned to the system counts as not reserved. The next use reserves
    // the slab again, which costs nothing because the system still holds its pages.
    const std::size_t first = slab;
    while (slab < slab_count && state_->slabs[slab].load(std::memory_order_relaxed) == 0) {
      ++slab;
    }
    const std::uint64_t end = std::min(slab * slab_bytes_, pool_bytes_);
    (void)Punch(first * slab_bytes_, end - first * slab_bytes_);
  }
  return {};
}

void PoolSegment::PunchUnusedExcept(std::int64_t kept_slabs) {
  for (std::size_t slab = 0; slab < state_->slabs.size(); ++slab) {
    std::atomic<std::uint32_t>& word = state_->slabs[slab];
    if (word.load(std::memory_order_acquire) != kReserved) continue;
    if (kept_slabs > 0) {
      --kept_slabs;
      continue;
    }
    const std::uint64_t bytes = SlabBytesAt(slab);
    // If the file system does not support holes, the slab stays reserved.
    if (!Punch(slab * slab_bytes_, bytes)) return;
    word.store(0, std::memory_order_relaxed);
    state_->reserved_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    state_->unused_slabs.fetch_sub(1, std::memory_order_relaxed);
  }
}

// ---- all parts

std::uint64_t PoolParts::reserved_bytes() const {
  std::uint64_t bytes = 0;
  for (const PoolSegment& part : parts_) {
    if (part.data() != nullptr) bytes += part.reserved_bytes();
  }
  return bytes;
}

Status PoolParts::RecoverReserved() {
  for (PoolSegment& part : parts_) {
    if (part.data() != nullptr) KVD_CHECK_OK(part.RecoverReserved());
  }
  return {};
}

bool PoolParts::has_unused() const {
  return std::ranges::any_of(
      parts_, [](const PoolSegment& part) { return part.data() != nullptr && part.has_unused(); });
}

void PoolParts::PunchUnused() {
  for (PoolSegment& part : parts_) {
    if (part.data() != nullptr) part.PunchUnused();
  }
}

}  // namespace kvd
