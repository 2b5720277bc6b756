#include "engine/memory/prefix_tables.h"

#include <sys/random.h>
#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/siphash.h"
#include "shm/segment_layout.h"

namespace kvd {

// ---- eviction order

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

// ---- evicted prefixes

namespace {

constexpr std::size_t kChunk = layout::kBlockCells;

}  // namespace

std::uint64_t SipHash(const std::array<std::uint64_t, 2>& key,
                      std::span<const std::uint64_t> words) {
  const auto bytes = std::as_bytes(words);
  return SipHash24(key[0], key[1], {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

EvictedPrefixes::EvictedPrefixes() {
  // If getrandom fails, the key is zero and therefore known to clients, which is acceptable because
  // only the reason that a reply names depends on the key.
  (void)!::getrandom(key_.data(), sizeof key_, 0);
}

std::uint64_t EvictedPrefixes::HashSpace(const PrefixSpace& space) const {
  const std::array<std::uint64_t, 3> words = {static_cast<std::uint64_t>(space.kind),
                                              static_cast<std::uint64_t>(space.owner), space.salt};
  return SipHash(key_, words);
}

std::uint64_t EvictedPrefixes::HashChunk(std::uint64_t before,
                                         std::span<const TokenId> chunk) const {
  std::array<std::uint64_t, 1 + kChunk / 2> words = {before};
  for (std::size_t i = 0; i < kChunk; i += 2) {
    words[1 + i / 2] = std::uint64_t{static_cast<std::uint32_t>(chunk[i])} << 32 |
                       static_cast<std::uint32_t>(chunk[i + 1]);
  }
  return SipHash(key_, words);
}

void EvictedPrefixes::Add(const PrefixSpace& space, std::span<const TokenId> tokens) {
  if (tokens.size() < kChunk) return;
  std::uint64_t hash = HashSpace(space);
  for (; tokens.size() >= kChunk; tokens = tokens.subspan(kChunk)) {
    hash = HashChunk(hash, tokens.first(kChunk));
  }
  if (!hashes_.insert(hash).second) return;
  if (order_.size() < kHeldMax) {
    order_.push_back(hash);
    return;
  }
  hashes_.erase(std::exchange(order_[next_], hash));
  next_ = (next_ + 1) % kHeldMax;
}

bool EvictedPrefixes::Contains(const PrefixSpace& space, std::span<const TokenId> tokens,
                               std::uint32_t depth) const {
  if (hashes_.empty()) return false;
  std::uint64_t hash = HashSpace(space);
  for (std::size_t at = 0; at + kChunk <= tokens.size(); at += kChunk) {
    hash = HashChunk(hash, tokens.subspan(at, kChunk));
    if (at + kChunk > depth && hashes_.contains(hash)) return true;
  }
  return false;
}

}  // namespace kvd
