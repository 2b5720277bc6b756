#include "engine/memory/evicted_prefixes.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/siphash.h"
#include "shm/segment_layout.h"

namespace kvd {
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
