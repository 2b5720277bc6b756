// Copies from memory that a peer may be writing concurrently. Callers of these functions validate
// and use only the copy. The functions copy in a way that prevents the compiler from reading the
// source a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace kvd {

// Copies one ring entry in 8-byte words. REQUIRES: `source` is 8-byte aligned.
template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0)
T CopyEntry(const std::byte* source) {
  std::uint64_t words[sizeof(T) / sizeof(std::uint64_t)];
  const auto* source_words = reinterpret_cast<const std::uint64_t*>(source);
  for (std::size_t i = 0; i < std::size(words); ++i) {
    words[i] = __atomic_load_n(source_words + i, __ATOMIC_RELAXED);
  }
  T entry;
  std::memcpy(&entry, words, sizeof entry);
  return entry;
}

// Stores one ring entry in 8-byte words. A slow reader of a reused entry may see words of the old
// and of the new entry, but every word is complete. REQUIRES: `target` is 8-byte aligned.
template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0)
void StoreEntry(const T& entry, std::byte* target) {
  std::uint64_t words[sizeof(T) / sizeof(std::uint64_t)];
  std::memcpy(words, &entry, sizeof entry);
  auto* target_words = reinterpret_cast<std::uint64_t*>(target);
  for (std::size_t i = 0; i < std::size(words); ++i) {
    __atomic_store_n(target_words + i, words[i], __ATOMIC_RELAXED);
  }
}

// Copies a payload. REQUIRES: source and target have equal sizes.
inline void CopyPayload(std::span<const std::byte> source, std::span<std::byte> target) {
  if (source.empty()) return;
  std::memcpy(target.data(), source.data(), source.size());
  asm volatile("" ::: "memory");
}

}  // namespace kvd
