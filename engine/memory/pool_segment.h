// PoolSegment: the mapping of one part of the pool, whose bytes the system reserves slab by slab
// before they are first written. PoolParts: all parts of one memory's pool.
//
// If the system cannot provide a page of a sparse file at the first store to it, the process gets a
// SIGBUS. If slabs are reserved beforehand, a lack of memory is instead an error of the request
// that needs the slab. Unused slabs are returned to the system (by punching holes), except for a
// few spare slabs, so that a pool at the edge of a slab does not alternate between reserving and
// punching. If the system refuses a slab, the spare slabs are returned before the second attempt.
//
// MemorySegments owns the mapping, then the memory that takes ownership of the segments. Threads:
// `AddUse`, `EnsureReserved` and `PunchUnused` are called by one thread at a time (under the
// memory's growth mutex); `DropUse` and the accessors by any thread at any time. All state of a
// slab is therefore one atomic word: a thread that changes one part of the word reads the other
// part in the same atomic operation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/segment_layout.h"
#include "shm/shared_memory.h"

namespace kvd {

// Small enough for a tmpfs with little room; a multiple of the size of a large page.
inline constexpr std::uint64_t kSlabBytes = 2ull << 20;
// Bytes of unused slabs that are kept reserved.
inline constexpr std::uint64_t kSpareBytes = 64ull << 20;

class PoolSegment {
 public:
  // A part without bytes: data() is null, and no other function may be called.
  PoolSegment() = default;
  // Sizes and maps `descriptor`; reserves nothing. A slab has slab_bytes, or the part's size if
  // that is smaller. The spare slabs have kSpareBytes together; with slabs smaller than kSlabBytes
  // (tests), one slab is spare. Errors: kIo, kNoSpace.
  static Result<PoolSegment> Create(UniqueFd descriptor, std::uint64_t pool_bytes,
                                    std::uint64_t slab_bytes = kSlabBytes);

  // Maps the part that an earlier process left. A file that is longer than pool_bytes is cut: an
  // earlier process was killed while it changed the pool's size. At first it is unknown which slabs
  // the system has reserved: the caller counts the uses with AddUse, then calls RecoverReserved.
  // Errors: kPermission (not a regular file of the daemon's own), kCorrupt (too short), kIo.
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
  bool has_unused() const {
    return state_->unused_slabs.load(std::memory_order_relaxed) > spare_slabs_;
  }
  // Returns all unused slabs except the spare ones to the system.
  void PunchUnused() { PunchUnusedExcept(spare_slabs_); }

 private:
  // The word of a slab: its number of uses, and kReserved if the system has reserved it.
  static constexpr std::uint32_t kReserved = 1u << 31;
  struct State {  // allocated separately: atomics cannot be moved
    explicit State(std::size_t slab_count) : slabs(slab_count) {}
    std::vector<std::atomic<std::uint32_t>> slabs;
    std::atomic<std::uint64_t> reserved_bytes{0};
    std::atomic<std::int64_t> unused_slabs{0};  // reserved slabs without a use
  };

  static Result<PoolSegment> Map(UniqueFd descriptor, std::uint64_t pool_bytes,
                                 std::uint64_t slab_bytes);
  void PunchUnusedExcept(std::int64_t kept_slabs);
  // Returns 0 or the errno of a failed reservation.
  int Reserve(std::uint64_t offset, std::uint64_t byte_count);
  bool Punch(std::uint64_t offset, std::uint64_t byte_count);
  std::uint64_t SlabBytesAt(std::size_t slab) const;

  UniqueFd descriptor_;
  Mapping<kReadWrite> mapping_;
  std::uint64_t pool_bytes_ = 0;
  std::uint64_t slab_bytes_ = 0;
  std::int64_t spare_slabs_ = 1;
  std::unique_ptr<State> state_;
};

// PoolParts: the parts of one pool, each a PoolSegment over its own file, so that each part can
// grow and be cut at its end. The parts are the blocks of each block group, the state slots and the
// rows of logits; a part without bytes has no file.
class PoolParts {
 public:
  static constexpr std::size_t kStates = layout::kGroupsMax;
  static constexpr std::size_t kLogits = layout::kGroupsMax + 1;
  static constexpr std::size_t kCount = layout::kGroupsMax + 2;

  // By block group, then kStates and kLogits.
  PoolSegment& part(std::size_t number) { return parts_[number]; }

  // The functions below are those of PoolSegment, for all parts together.
  std::uint64_t reserved_bytes() const;
  Status RecoverReserved();
  bool has_unused() const;
  void PunchUnused();

 private:
  std::array<PoolSegment, kCount> parts_;
};

}  // namespace kvd
