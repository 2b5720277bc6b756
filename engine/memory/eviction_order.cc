#include "engine/memory/eviction_order.h"

#include <bit>
#include <tuple>

namespace kvd {
namespace {

// `tokens` + 1, rounded down to a power of two: 1 for 0 tokens, otherwise at least 2.
std::uint64_t RoundedTokens(std::uint32_t tokens) {
  return std::bit_floor(std::uint64_t{tokens} + 1);
}

}  // namespace

double EvictionOrder::WorthOf(const Sequence& sequence, std::uint64_t use_number) {
  return static_cast<double>(RoundedTokens(sequence.tokens)) /
         static_cast<double>(1 + use_number - sequence.last_use);
}

std::set<EvictionOrder::Place>& EvictionOrder::ListOf(std::uint32_t tokens) {
  return lists_[static_cast<std::size_t>(std::countr_zero(RoundedTokens(tokens)))];
}

void EvictionOrder::Put(std::uint32_t index, const Sequence& sequence) {
  std::optional<Sequence>& entry = entries_[index];
  if (entry == sequence) return;
  Erase(index);
  entry = sequence;
  ++size_;
  ListOf(sequence.tokens).insert({sequence.last_use, sequence.created, index});
}

void EvictionOrder::Erase(std::uint32_t index) {
  std::optional<Sequence>& entry = entries_[index];
  if (!entry) return;
  ListOf(entry->tokens).erase({entry->last_use, entry->created, index});
  entry.reset();
  --size_;
}

void EvictionOrder::Clear() {
  for (auto& list : lists_) list.clear();
  for (auto& entry : entries_) entry.reset();
  size_ = 0;
}

std::optional<std::uint32_t> EvictionOrder::Least(std::uint64_t use_number) const {
  std::optional<std::tuple<double, std::uint64_t, std::uint32_t>> least;
  for (const std::set<Place>& list : lists_) {
    if (list.empty()) continue;
    const Place& first = *list.begin();
    const std::tuple candidate(WorthOf(*entries_[first.index], use_number), first.created,
                               first.index);
    if (!least || candidate < *least) least = candidate;
  }
  if (!least) return std::nullopt;
  return std::get<2>(*least);
}

}  // namespace kvd
