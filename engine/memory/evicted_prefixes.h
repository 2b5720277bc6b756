// EvictedPrefixes: remembers which prefixes had to make room, so that a prompt that finds less than
// it might have can be told why.
//
// A bounded list of keyed hashes, nothing of the tokens themselves: of what was evicted the hash of
// its whole 32-token chunks. The key is drawn at creation; whoever does not know it cannot make one
// prompt look like another.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/memory/prefix_index.h"
#include "shm/ids.h"

namespace kvd {

class EvictedPrefixes {
 public:
  static constexpr std::size_t kHeldMax = 4096;

  EvictedPrefixes();

  void Add(const PrefixSpace& space, std::span<const TokenId> tokens);
  // Whether a prefix of `tokens` of more than `depth` tokens was evicted.
  bool Contains(const PrefixSpace& space, std::span<const TokenId> tokens,
                std::uint32_t depth) const;

 private:
  std::uint64_t HashSpace(const PrefixSpace& space) const;
  std::uint64_t HashChunk(std::uint64_t before, std::span<const TokenId> chunk) const;

  std::array<std::uint64_t, 2> key_ = {};
  std::unordered_set<std::uint64_t> hashes_;
  std::vector<std::uint64_t> order_;  // a ring of kHeldMax
  std::size_t next_ = 0;
};

// SipHash-2-4 of 64-bit words.
std::uint64_t SipHash(const std::array<std::uint64_t, 2>& key,
                      std::span<const std::uint64_t> words);

}  // namespace kvd
