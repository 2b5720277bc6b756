// Mapping: a shared mapping of a descriptor's bytes, read-only or writable by type.
//
// A Mapping owns the mapped range and unmaps it on destruction. A Mapping is move-only. The
// descriptor may be closed after the Mapping is made. Other processes may change the bytes at any
// time: copy a peer's bytes first, then validate the copy. If a mapped file is truncated, the next
// access raises SIGBUS: map only files that cannot shrink (sealed memfds, or files in the daemon's
// private directory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace kvd {

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

}  // namespace kvd
