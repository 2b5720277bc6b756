// PrefixCache: lets a prompt begin with cells that other sequences hold. PrefixCache is a part of
// Memory. Threads: any.
//
// The pristine part of every live sequence can be reused by prompts of the same namespace (owner
// and salt); the pristine part of a snapshot can be reused by every owner who may see the snapshot.
// A sequence that its client has released stays as a retained sequence until its room is needed
// (eviction.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_index.h"
#include "engine/memory/prefix_tables.h"
#include "engine/memory/request_tag.h"
#include "shm/prefix_reuse.h"

namespace kvd {

// A prompt that begins a sequence.
struct PrefixRequest {
  // The sequence to fill: empty, or filled by an earlier Take with the prompt's first cells.
  SequenceHandle destination = SequenceHandle::kNone;
  std::span<const TokenId> tokens;  // the whole prompt
  RequestTag applied{};             // the request of the prompt, as in AppendRequest
  // The sequence that was read from disk for this prompt; cells taken from it count as kDisk.
  SequenceHandle loaded = SequenceHandle::kNone;
};
struct PrefixTaken {
  std::uint32_t cells = 0;  // cells of the destination after the call
  // The most tokens that any searched sequence has in common with the prompt, without the prompt's
  // last token; more than `cells` if the cells of some of these tokens cannot be taken.
  std::uint32_t common = 0;
  // Origin of the last cells taken; kNone: no cells were taken.
  PrefixOrigin origin = PrefixOrigin::kNone;
  PrefixLimit limit = PrefixLimit::kNone;
  SequenceHandle source = SequenceHandle::kNone;
};
// The sequence that has the most tokens in common with a prompt.
struct PrefixNeighbour {
  SequenceHandle sequence = SequenceHandle::kNone;  // kNone: no sequence has a token in common
  std::uint32_t common = 0;                         // number of tokens in common
  // The sequence's token after the common ones; nullopt: the sequence ends there.
  std::optional<TokenId> next{};
};

class PrefixCache {
 public:
  explicit PrefixCache(MemoryStore& store) : store_(store) {}
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Fills the destination with the longest reusable prefix of the prompt, without the prompt's last
  // token. An empty destination takes at least kCellsMin cells or none. If there is no reusable
  // prefix, Take succeeds without taking cells. Errors: kNotFound, kPermission, kConflict (the
  // destination holds cells that are not the prompt's), kNoSpace (lists).
  static constexpr std::uint32_t kCellsMin = 16;
  Result<PrefixTaken> Take(const PrefixRequest& request);
  // Returns what Take would return for an empty sequence of `owner`, without taking cells.
  PrefixTaken Find(const SequenceOwner& owner, std::span<const TokenId> tokens) const;
  // The sequence with the most tokens in common with the whole prompt, in the namespaces that Take
  // searches, even if its cells cannot be taken.
  PrefixNeighbour FindNeighbour(const SequenceOwner& owner, std::span<const TokenId> tokens) const;
  // Releases a sequence. The pristine part of a released sequence stays as a retained sequence
  // until its room is needed. The sequence is dropped if fewer than kCellsMin cells are worth
  // retaining, or if another retained sequence holds the same tokens. A pinned sequence always
  // stays, with all its cells. Returns whether the sequence stays. Errors: kNotFound, kPermission
  // (published).
  Result<bool> Retain(SequenceHandle handle, const RequestTag& tag = {});
  // Drops retained, unpinned sequences, the least useful first, until at most sequences_max are
  // left. Returns the number of dropped sequences.
  std::uint32_t LimitRetained(std::uint32_t sequences_max);
  PrefixCounters counters() const;

 private:
  // The best match for a prompt in the namespaces that its owner may use.
  struct Found {
    std::uint32_t source = layout::kNoSlot;
    std::uint32_t cells = 0;
    std::uint32_t common = 0;  // at most the prompt's length - 1
    PrefixIndex::Match own;    // the match in the owner's private namespace
  };

  Found FindBest(const SequenceOwner& owner, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  // Returns `depth`, or 0 if a window group has dropped cells that the token after `depth` cells
  // reaches.
  std::uint32_t GivableCells(std::uint32_t index, std::uint32_t depth) const
      KVD_REQUIRES(store_.mutex);
  PrefixLimit WhyNotMore(const SequenceOwner& owner, std::span<const TokenId> tokens,
                         const Found& found) const KVD_REQUIRES(store_.mutex);
  // Whether the tokens of all cells of the record are the first tokens of `tokens`. REQUIRES: the
  // record has at most tokens.size() cells.
  bool HoldsTokens(const layout::SequenceRecord& record, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  bool IsBehindEdit(const PrefixIndex::Match& match, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  PrefixOrigin OriginOf(std::uint32_t index) const KVD_REQUIRES(store_.mutex);
  Result<bool> RetainFound(const FoundSequence& found, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // How many of the sequence's cells are worth retaining.
  std::uint32_t CountRetainable(const FoundSequence& found) const KVD_REQUIRES(store_.mutex);
  // Whether another retained sequence holds the same tokens, so that this sequence can be dropped
  // without losing cached tokens.
  bool IsRetainedElsewhere(std::uint32_t index) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
