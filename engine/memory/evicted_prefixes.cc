#include "engine/memory/evicted_prefixes.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "shm/segment_layout.h"

namespace kvd {
namespace {

constexpr std::size_t kChunk = layout::kBlockCells;

struct SipState {
  std::uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Feed(std::uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t SipHash(const std::array<std::uint64_t, 2>& key,
                      std::span<const std::uint64_t> words) {
  SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                 key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
  for (const std::uint64_t word : words) state.Feed(word);
  state.Feed(std::uint64_t{(words.size() * sizeof(std::uint64_t)) & 0xff} << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

EvictedPrefixes::EvictedPrefixes() {
  // Without randomness the key is that of everybody; what is at stake is a reason in a reply.
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
