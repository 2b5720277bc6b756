// Shared memory: mappings of descriptors, and memfds that are sealed before other processes receive
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// Mapping: a shared mapping of a descriptor's bytes, read-only or writable by type.
//
// A Mapping owns the mapped range and unmaps it on destruction. A Mapping is move-only. The
// descriptor may be closed after the Mapping is made. Other processes may change the bytes at any
// time: copy a peer's bytes first, then validate the copy. If a mapped file is truncated, the next
// access raises SIGBUS: map only files that cannot shrink (sealed memfds, or files in the daemon's
// private directory).
enum class Access { kReadOnly, kReadWrite };
inline constexpr Access kReadOnly = Access::kReadOnly;
inline constexpr Access kReadWrite = Access::kReadWrite;

template <Access access>
class Mapping {
 public:
  using Byte = std::conditional_t<access == kReadOnly, const std::byte, std::byte>;

  // Creates an empty mapping, whose data() is null.
  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  // Maps the descriptor's whole current content. Errors: kInvalidArgument (the content is empty),
  // kIo (the system's text; a Mapping<kReadWrite> needs a descriptor that is open for writing).
  static Result<Mapping> MapAll(int descriptor);
  // Maps `mapped_bytes` bytes from `offset`, a multiple of the page size. Errors: as for MapAll;
  // kInvalidArgument also if the range is not inside the descriptor's current content.
  static Result<Mapping> MapRange(int descriptor, std::uint64_t offset, std::size_t mapped_bytes);

  Byte* data() const { return data_; }
  std::size_t byte_count() const { return byte_count_; }
  std::span<Byte> bytes() const { return {data_, byte_count_}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Byte* data_ = nullptr;
  std::size_t byte_count_ = 0;
};

extern template class Mapping<kReadOnly>;
extern template class Mapping<kReadWrite>;

// SealedMemory: a memfd of fixed size that is sealed before another process receives it. Clients
// map the memory that SealedMemory creates.
//
// Owner: the daemon, which creates two segments per client. The kernel frees the pages when the
// last descriptor and mapping are closed. The seals prevent a client from truncating the segment,
// which would raise SIGBUS in the daemon, and from writing memory that it may only read. File modes
// prevent neither truncation nor writing (shm/README.md, rule 3). If adding a seal fails,
// CreateSealedMemory returns an error.
enum class Sealing : std::uint8_t {
  kSize,  // the seals F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL: the size is fixed
  // The seals of kSize and F_SEAL_FUTURE_WRITE: only mappings made before the sealing can write.
  kSizeAndLaterWrites
};

// A new memfd: the descriptor to send, and the mapping made before the sealing. With
// kSizeAndLaterWrites, the mapping in a CreatedMemory stays the only writable mapping of the memfd.
struct CreatedMemory {
  UniqueFd descriptor;
  Mapping<kReadWrite> mapping;
};

// Creates a zeroed memfd of `segment_bytes` (a positive multiple of the page size), mode 0600,
// close-on-exec, and not executable if the kernel supports that flag. `name` appears in
// /proc/PID/maps. Errors: kInvalidArgument (size), kIo (the system's text).
Result<CreatedMemory> CreateSealedMemory(std::string_view name, std::size_t segment_bytes,
                                         Sealing sealing);

// Checks a received descriptor before it is mapped: it must be a memfd that has at least the seals
// of `sealing` and holds exactly `segment_bytes`. Errors: kCorrupt, naming the seals or sizes found
// and wanted; kIo.
Status CheckSealedMemory(int descriptor, Sealing sealing, std::size_t segment_bytes);

}  // namespace kvd
