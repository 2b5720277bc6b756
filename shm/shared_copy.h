// Copies out of memory that a peer may be writing at this moment. What was copied is what gets
// validated and used: the compiler may not read the source again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace kvd {

// One ring entry, word by word. REQUIRES: `source` is 8-byte aligned.
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

// The same towards shared memory: a slow reader of a reused entry sees words, never torn ones.
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

// REQUIRES: equal sizes.
inline void CopyPayload(std::span<const std::byte> source, std::span<std::byte> target) {
  if (source.empty()) return;
  std::memcpy(target.data(), source.data(), source.size());
  asm volatile("" ::: "memory");
}

}  // namespace kvd
