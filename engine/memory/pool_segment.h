// PoolSegment: the mapping of `pool`, whose bytes the system reserves slab by slab, before they are
// first written.
//
// A page of a sparse file that the system cannot find at the first store to it is a SIGBUS; a slab
// that it cannot reserve is an error of the request that needs it. A slab that nothing uses any
// more is given back (hole punched), one spare kept so that a pool at a slab's edge does not
// reserve and punch in turns.
//
// Owner: MemorySegments, then the memory built on it. Threads: `AddUse`, `EnsureReserved` and
// `PunchUnused` by one thread at a time (the memory's growth mutex); `DropUse` and the accessors by
// any, at any time. So all that is known of a slab is one atomic word: a thread that changes a part
// of it sees the other part as it was at that moment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shm/error.h"
#include "shm/mapping.h"
#include "shm/unique_fd.h"

namespace kvd {

inline constexpr std::uint64_t kSlabBytes = 64ull << 20;

class PoolSegment {
 public:
  // Sizes and maps `descriptor`; reserves nothing yet. Slabs are of slab_bytes, or the pool's size
  // if that is smaller. Errors: kIo, kNoSpace.
  static Result<PoolSegment> Create(UniqueFd descriptor, std::uint64_t pool_bytes,
                                    std::uint64_t slab_bytes = kSlabBytes);

  // Maps the pool that an earlier process left. What it had reserved is not known yet: count the
  // uses, then call RecoverReserved. Errors: kPermission (not a regular file of our own), kCorrupt
  // (another size), kIo.
  static Result<PoolSegment> Open(UniqueFd descriptor, std::uint64_t pool_bytes,
                                  std::uint64_t slab_bytes = kSlabBytes);
  // Reserves every slab that has a use (what is there stays) and gives all others back. Before any
  // other thread knows the pool. Errors: those of EnsureReserved.
  Status RecoverReserved();

  std::byte* data() const { return mapping_.data(); }
  std::uint64_t pool_bytes() const { return pool_bytes_; }
  std::uint64_t reserved_bytes() const {
    return state_->reserved_bytes.load(std::memory_order_relaxed);
  }

  // Counts a user of the bytes [offset, offset + byte_count); no slab that has one is punched.
  void AddUse(std::uint64_t offset, std::uint64_t byte_count);
  void DropUse(std::uint64_t offset, std::uint64_t byte_count);
  // Makes the bytes safe to write. Errors: kNoSpace, with the numbers; kIo.
  Status EnsureReserved(std::uint64_t offset, std::uint64_t byte_count);
  // Whether PunchUnused would find something: cheap, any thread.
  bool has_unused() const { return state_->unused_slabs.load(std::memory_order_relaxed) > 1; }
  // Gives unused slabs back to the system, but one.
  void PunchUnused();

 private:
  // A slab: how many users it has, and whether the system has reserved it.
  static constexpr std::uint32_t kReserved = 1u << 31;
  struct State {  // kept apart: atomics cannot move
    explicit State(std::size_t slab_count) : slabs(slab_count) {}
    std::vector<std::atomic<std::uint32_t>> slabs;
    std::atomic<std::uint64_t> reserved_bytes{0};
    std::atomic<std::int64_t> unused_slabs{0};  // reserved ones without a use
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
