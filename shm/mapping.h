// Mapping: one shared mapping of a descriptor's bytes, read-only or writable by type.
//
// Owner: whoever holds it; unmapped on destruction. Move-only. The descriptor may be closed once
// mapped. The bytes may be changed by other processes at any time: readers of a peer's bytes copy
// first and validate the copy. A file that is truncated under the mapping is a SIGBUS at the next
// access: map only what cannot shrink (sealed, or in our own private directory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "shm/error.h"

namespace kvd {

enum class Access { kReadOnly, kReadWrite };
inline constexpr Access kReadOnly = Access::kReadOnly;
inline constexpr Access kReadWrite = Access::kReadWrite;

template <Access access>
class Mapping {
 public:
  using Byte = std::conditional_t<access == kReadOnly, const std::byte, std::byte>;

  // Nothing mapped: data() is null.
  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  // Maps the whole of what the descriptor holds now. Errors: kInvalidArgument (it is empty), kIo
  // (the system's text; a descriptor that is not open for writing cannot become a
  // Mapping<kReadWrite>).
  static Result<Mapping> MapAll(int descriptor);
  // Maps `mapped_bytes` from `offset` on, a multiple of the page size. Errors as above;
  // kInvalidArgument also where that is not inside what the descriptor holds now.
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
