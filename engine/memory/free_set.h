// FreeSet: tracks which numbers of [0, capacity) are free; the lowest free number is taken first. A
// memory uses FreeSets for blocks, sequence records, snapshot records and session records.
//
// FreeSet is not thread-safe. Invariant: no free number is below 64 * hint_.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace kvd {

class FreeSet {
 public:
  FreeSet() = default;
  // Makes a set in which all numbers are free.
  explicit FreeSet(std::uint32_t capacity)
      : words_((std::size_t{capacity} + 63) / 64, ~0ull),
        capacity_(capacity),
        free_count_(capacity) {
    if (capacity % 64 != 0) words_.back() = (1ull << (capacity % 64)) - 1;
  }

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t free_count() const { return free_count_; }
  bool is_free(std::uint32_t number) const {
    return (words_[number / 64] >> (number % 64) & 1) != 0;
  }

  // Takes the lowest free number; nullopt: no number is free.
  std::optional<std::uint32_t> TakeLowest() {
    if (free_count_ == 0) return std::nullopt;
    while (words_[hint_] == 0) ++hint_;
    const auto number = static_cast<std::uint32_t>(
        hint_ * 64 + static_cast<unsigned>(std::countr_zero(words_[hint_])));
    words_[hint_] &= words_[hint_] - 1;
    --free_count_;
    return number;
  }
  // REQUIRES: is_free(number).
  void Take(std::uint32_t number) {
    KVD_ASSERT(number < capacity_ && is_free(number));
    words_[number / 64] &= ~(1ull << (number % 64));
    --free_count_;
  }
  // REQUIRES: !is_free(number).
  void Give(std::uint32_t number) {
    KVD_ASSERT(number < capacity_ && !is_free(number));
    words_[number / 64] |= 1ull << (number % 64);
    ++free_count_;
    if (number / 64 < hint_) hint_ = number / 64;
  }

  friend bool operator==(const FreeSet& a, const FreeSet& b) {
    return a.capacity_ == b.capacity_ && a.words_ == b.words_;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t hint_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t free_count_ = 0;
};

}  // namespace kvd
