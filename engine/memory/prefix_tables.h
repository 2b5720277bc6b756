// PrefixTables: state derived from a memory's records for the prefix cache: the index of tokens,
// the order in which retained sequences are evicted, and recently evicted prefixes. The store's
// mutex protects PrefixTables.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "engine/memory/prefix_index.h"
#include "shm/prefix_reuse.h"

namespace kvd {

// EvictionOrder: finds the retained sequence that is worth least, while sequences are used and
// change.
//
// The worth of a sequence is the number of tokens that would have to be computed again without it,
// plus one and rounded down to a power of two, divided by one plus the number of uses of any
// sequence since its own last use. Every use of a sequence therefore changes the worth of all
// sequences. But of the sequences with the same power of two, the least recently used sequence is
// always worth least. EvictionOrder therefore has one list, ordered by last use, for each power of
// two, and the sequence that is worth least is the first entry of one of these lists.
//
// A memory owns the order and calls it under the memory's mutex; the order is not thread-safe. Put
// and Erase cost O(log n); Least compares the first entries of 33 lists.
class EvictionOrder {
 public:
  explicit EvictionOrder(std::uint32_t sequence_capacity) : entries_(sequence_capacity) {}

  struct Sequence {
    std::uint64_t last_use = 0;  // number of its last use
    // Of two sequences that are worth the same, the older one is evicted first.
    std::uint64_t created = 0;
    std::uint32_t tokens = 0;  // number of tokens that only this sequence holds
    friend bool operator==(const Sequence&, const Sequence&) = default;
  };
  // Adds a sequence or replaces its entry. REQUIRES: index < sequence_capacity.
  void Put(std::uint32_t index, const Sequence& sequence);
  void Erase(std::uint32_t index);  // no effect if the sequence has no entry
  void Clear();
  bool contains(std::uint32_t index) const { return entries_[index].has_value(); }
  std::size_t size() const { return size_; }

  // The index of the sequence that is worth least at use `use_number`; nullopt: there is none.
  std::optional<std::uint32_t> Least(std::uint64_t use_number) const;

  // The worth by which Least compares sequences; public for tests.
  static double WorthOf(const Sequence& sequence, std::uint64_t use_number);

 private:
  struct Place {
    std::uint64_t last_use = 0;
    std::uint64_t created = 0;
    std::uint32_t index = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::set<Place>& ListOf(std::uint32_t tokens);

  std::array<std::set<Place>, 33> lists_;         // by the power of two
  std::vector<std::optional<Sequence>> entries_;  // by index
  std::size_t size_ = 0;
};

// EvictedPrefixes: remembers which prefixes were evicted, so that the reply to a prompt can name
// eviction as the reason why few of the prompt's tokens were reused.
//
// The list contains keyed hashes instead of tokens, and its length is bounded: for each evicted
// prefix there is one hash over the prefix's whole chunks of 32 tokens. The key is drawn at
// creation; a client that does not know the key cannot construct a prompt whose hash equals that of
// another prompt.
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

struct PrefixCounters {
  std::array<std::uint64_t, kPrefixOrigins> tokens_reused = {};  // by PrefixOrigin
  std::uint64_t evictions = 0;                                   // number of evicted sequences
  std::uint64_t tokens_evicted = 0;  // evicted tokens that no other sequence held
};

struct PrefixTables {
  explicit PrefixTables(std::uint32_t sequence_capacity)
      : index(sequence_capacity), retained(sequence_capacity), last_uses(sequence_capacity) {}

  PrefixIndex index;
  EvictionOrder retained;  // the retained, unpinned sequences
  // By sequence: number of the last use; 0: not used by this process.
  std::vector<std::uint64_t> last_uses;
  std::uint64_t use_number = 0;
  EvictedPrefixes evicted;
  PrefixCounters counters;
  bool evicts = true;
};

}  // namespace kvd
