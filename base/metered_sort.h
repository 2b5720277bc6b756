// Sorts items by a 32-bit key with a radix sort of 11 bits per pass. The work of the sort is linear
// in the item count and is announced to a WorkMeter.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/work_control.h"

namespace kvd {

// Sorts `items` by key_of(item) -> std::uint32_t. The sort is stable. Errors: kCancelled.
template <class Item, class KeyOf>
Status SortMetered(std::vector<Item>* items, const KeyOf& key_of, WorkMeter& meter) {
  constexpr std::size_t kFewItems = 2048;
  constexpr unsigned kDigitBits = 11;
  constexpr std::uint32_t kDigits = 1u << kDigitBits;
  KVD_CHECK_OK(meter.Spend(items->size()));
  if (std::ranges::is_sorted(*items, {}, key_of)) return {};
  if (items->size() <= kFewItems) {
    std::ranges::stable_sort(*items, {}, key_of);
    return meter.Spend(items->size());
  }
  std::vector<Item> sorted(items->size());
  for (unsigned shift = 0; shift < 32; shift += kDigitBits) {
    const auto digit_of = [&](const Item& item) -> std::uint32_t {
      return (static_cast<std::uint32_t>(std::invoke(key_of, item)) >> shift) % kDigits;
    };
    std::array<std::size_t, kDigits + 1> begins{};
    for (const Item& item : *items) ++begins[digit_of(item) + 1];
    KVD_CHECK_OK(meter.Spend(items->size()));
    for (std::uint32_t digit = 0; digit < kDigits; ++digit) begins[digit + 1] += begins[digit];
    for (const Item& item : *items) {
      KVD_CHECK_OK(meter.Spend(1));
      sorted[begins[digit_of(item)]++] = item;
    }
    items->swap(sorted);
  }
  return {};
}

}  // namespace kvd
