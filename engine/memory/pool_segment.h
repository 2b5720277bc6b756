// PoolSegment: the mapping of `pool`, whose bytes the system reserves slab by slab before they are
// first written.
//
// If the system cannot provide a page of a sparse file at the first store to it, the process gets a
// SIGBUS. If slabs are reserved beforehand, a lack of memory is instead an error of the request
// that needs the slab. An unused slab is returned to the system (by punching a hole), except for
// one spare slab, so that a pool at the edge of a slab does not alternate between reserving and
// punching.
//
// MemorySegments owns the mapping, then the memory that takes ownership of the segments. Threads:
// `AddUse`, `EnsureReserved` and `PunchUnused` are called by one thread at a time (under the
// memory's growth mutex); `DropUse` and the accessors by any thread at any time. All state of a
// slab is therefore one atomic word: a thread that changes one part of the word reads the other
// part in the same atomic operation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/shared_memory.h"

namespace kvd {

inline constexpr std::uint64_t kSlabBytes = 64ull << 20;

class PoolSegment {
 public:
  // Sizes and maps `descriptor`; reserves nothing. A slab has slab_bytes, or the pool's size if
  // that is smaller. Errors: kIo, kNoSpace.
  static Result<PoolSegment> Create(UniqueFd descriptor, std::uint64_t pool_bytes,
                                    std::uint64_t slab_bytes = kSlabBytes);

  // Maps the pool that an earlier process left. At first it is unknown which slabs the system has
  // reserved: the caller counts the uses with AddUse, then calls RecoverReserved. Errors:
  // kPermission (not a regular file of the daemon's own), kCorrupt (another size), kIo.
  static Result<PoolSegment> Open(UniqueFd descriptor, std::uint64_t pool_bytes,
                                  std::uint64_t slab_bytes = kSlabBytes);
  // Reserves every slab whose uses (AddUse) are not zero, keeping its content, and returns all
  // other slabs to the system. REQUIRES: no other thread uses the pool yet. Errors: those of
  // EnsureReserved.
  Status RecoverReserved();

  std::byte* data() const { return mapping_.data(); }
  std::uint64_t pool_bytes() const { return pool_bytes_; }
  std::uint64_t reserved_bytes() const {
    return state_->reserved_bytes.load(std::memory_order_relaxed);
  }

  // Adds a use of the bytes [offset, offset + byte_count). A slab with a use is never punched.
  void AddUse(std::uint64_t offset, std::uint64_t byte_count);
  void DropUse(std::uint64_t offset, std::uint64_t byte_count);
  // Makes the bytes safe to write. Errors: kNoSpace, with the numbers; kIo.
  Status EnsureReserved(std::uint64_t offset, std::uint64_t byte_count);
  // Whether PunchUnused would find a slab to punch. has_unused costs one atomic load and may be
  // called by any thread.
  bool has_unused() const { return state_->unused_slabs.load(std::memory_order_relaxed) > 1; }
  // Returns all unused slabs except one to the system.
  void PunchUnused();

 private:
  // The word of a slab: its number of uses, and kReserved if the system has reserved it.
  static constexpr std::uint32_t kReserved = 1u << 31;
  struct State {  // allocated separately: atomics cannot be moved
    explicit State(std::size_t slab_count) : slabs(slab_count) {}
    std::vector<std::atomic<std::uint32_t>> slabs;
    std::atomic<std::uint64_t> reserved_bytes{0};
    std::atomic<std::int64_t> unused_slabs{0};  // reserved slabs without a use
  };

  PoolSegment() = default;
  static Result<PoolSegment> Map(UniqueFd descriptor, std::uint64_t pool_bytes,
                                 std::uint64_t slab_bytes);
  bool Punch(std::uint64_t offset, std::uint64_t byte_count);
  std::uint64_t SlabBytesAt(std::size_t slab) const;

  UniqueFd descriptor_;
  Mapping<kReadWrite> mapping_;
  std::uint64_t pool_bytes_ = 0;
  std::uint64_t slab_bytes_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace kvd
