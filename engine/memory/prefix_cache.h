// PrefixCache: prompts begin with what other sequences hold. Part of Memory. Threads: any.
//
// Every live sequence's pristine part can be taken by prompts of its namespace: its owner and salt;
// that of a snapshot by all who may see it. Sequences that their clients have released stay as retained
// prefixes until their room is needed (eviction.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_index.h"
#include "engine/memory/prefix_tables.h"
#include "engine/memory/request_tag.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/prefix_reuse.h"

namespace kvd {

// A prompt that begins a sequence.
struct PrefixRequest {
  // Empty, or holding the prompt's first cells by an earlier Take.
  SequenceHandle destination = SequenceHandle::kNone;
  std::span<const TokenId> tokens;  // all of the prompt
  RequestTag applied{};             // whose prompt it is, as AppendRequest's
  // The sequence that was read from disk for this prompt: what is taken of it is kDisk.
  SequenceHandle loaded = SequenceHandle::kNone;
};
struct PrefixTaken {
  std::uint32_t cells = 0;   // that the destination holds now
  std::uint32_t common = 0;  // that some sequence has in common; more than cells if not to be taken
  PrefixOrigin origin = PrefixOrigin::kNone;  // of the last cells taken; kNone: none were
  PrefixLimit limit = PrefixLimit::kNone;
  SequenceHandle source = SequenceHandle::kNone;
};
// The sequence that has the most tokens in common with a prompt.
struct PrefixNeighbour {
  SequenceHandle sequence = SequenceHandle::kNone;  // kNone: none has any
  std::uint32_t common = 0;                         // tokens
  std::optional<TokenId> next{};                    // its token behind them; none: it ends there
};

class PrefixCache {
 public:
  explicit PrefixCache(MemoryStore& store) : store_(store) {}
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Takes as much of the prompt as the sequences hold in common with it, all but its last token at
  // most, and no fewer than kCellsMin cells. Nothing more to take is no error.
  // Errors: kNotFound, kPermission, kConflict (the destination holds other cells), kNoSpace (lists).
  static constexpr std::uint32_t kCellsMin = 16;
  Result<PrefixTaken> Take(const PrefixRequest& request);
  // What Take into an empty sequence of that owner would find.
  PrefixTaken Find(const SequenceOwner& owner, std::span<const TokenId> tokens) const;
  // The nearest of those that Take looks at, whether its cells can be taken or not
  // (prefix_neighbour.cc). The whole prompt is compared.
  PrefixNeighbour FindNeighbour(const SequenceOwner& owner, std::span<const TokenId> tokens) const;
  // Releases a sequence: its pristine part stays as a retained prefix until room is needed; without
  // one, or where others retain the same tokens, it is dropped. Returns whether it stays. Errors:
  // kNotFound, kPermission (published).
  Result<bool> Retain(SequenceHandle handle, const RequestTag& tag = {});
  // Drops retained, unpinned sequences, those of little use first, while more than this many are
  // left. Returns how many were dropped.
  std::uint32_t LimitRetained(std::uint32_t sequences_max);
  PrefixCounters counters() const;

 private:
  // The best that the namespaces of an owner have for a prompt.
  struct Found {
    std::uint32_t source = layout::kNoSlot;
    std::uint32_t cells = 0;
    std::uint32_t common = 0;  // at most all but the prompt's last token
    PrefixIndex::Match own;    // in the owner's own namespace
  };

  Found FindBest(const SequenceOwner& owner, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  // `depth`, or 0 if one of the sequence's windows does not reach so far back.
  std::uint32_t GivableCells(std::uint32_t index, std::uint32_t depth) const
      KVD_REQUIRES(store_.mutex);
  PrefixLimit WhyNotMore(const SequenceOwner& owner, std::span<const TokenId> tokens,
                         const Found& found) const KVD_REQUIRES(store_.mutex);
  // Whether all its cells are the first ones of `tokens`. REQUIRES: no more cells than tokens.
  bool HoldsTokens(const layout::SequenceRecord& record, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  bool IsBehindEdit(const PrefixIndex::Match& match, std::span<const TokenId> tokens) const
      KVD_REQUIRES(store_.mutex);
  PrefixOrigin OriginOf(std::uint32_t index) const KVD_REQUIRES(store_.mutex);
  Result<bool> RetainFound(const FoundSequence& found, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // How many of its cells are worth retaining.
  std::uint32_t CountRetainable(const FoundSequence& found) const KVD_REQUIRES(store_.mutex);
  // Whether other retained sequences hold the same tokens, so that nothing is lost without it.
  bool IsRetainedElsewhere(std::uint32_t index) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
