// EvictedPrefixes: remembers which prefixes were evicted, so that the reply to a prompt can name
// eviction as the reason why few of the prompt's tokens were reused.
//
// The list contains keyed hashes instead of tokens, and its length is bounded: for each evicted
// prefix there is one hash over the prefix's whole chunks of 32 tokens. The key is drawn at
// creation; a client that does not know the key cannot construct a prompt whose hash equals that of
// another prompt.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "engine/memory/prefix_index.h"

namespace kvd {

class EvictedPrefixes {
 public:
  static constexpr std::size_t kHeldMax = 4096;

  EvictedPrefixes();

  void Add(const PrefixSpace& space, std::span<const TokenId> tokens);
  // Whether a prefix of `tokens` that is longer than `depth` tokens was evicted.
  bool Contains(const PrefixSpace& space, std::span<const TokenId> tokens,
                std::uint32_t depth) const;

 private:
  std::uint64_t HashSpace(const PrefixSpace& space) const;
  std::uint64_t HashChunk(std::uint64_t before, std::span<const TokenId> chunk) const;

  std::array<std::uint64_t, 2> key_ = {};
  std::unordered_set<std::uint64_t> hashes_;
  std::vector<std::uint64_t> order_;  // a ring of kHeldMax hashes, the oldest at next_
  std::size_t next_ = 0;
};

// SipHash-2-4 of 64-bit words.
std::uint64_t SipHash(const std::array<std::uint64_t, 2>& key,
                      std::span<const std::uint64_t> words);

}  // namespace kvd
