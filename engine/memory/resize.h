// Resizing: moves the content of a stored memory into a `meta` with other numbers of blocks, slots,
// records and list units, over the same pool.
//
// The old state stays valid until the new `meta` is published. Blocks and slots behind the new end
// are copied to places that the old state does not use; then the new `meta` is written, with all
// records, handles and lists; the caller publishes it; and then the parts of the pool are cut at
// their ends. What the old state does not use beforehand is made free by evicting retained
// sequences, each in a commit of its own. A resize therefore needs room for the new `meta` and for
// the copied blocks, never for a second pool.
//
// Held sequences (HolderOf) always stay. The numbers that do not fit are an error, and nothing has
// changed. Kept rows of logits are a cache and are left out if there is no place for them.
//
// Threads: one. The object uses the memory as long as it lives.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/memory/memory.h"

namespace kvd {

// What a start may not discard.
struct HeldCounts {
  std::uint32_t live = 0;  // neither pinned nor published
  std::uint32_t pinned = 0;
  std::uint32_t published = 0;
  std::uint64_t tokens = 0;

  std::uint32_t sequences() const { return live + pinned + published; }
};
// The counts of the committed records. Of the sequences that are only live, those count whose
// session `returns` accepts; empty: all. REQUIRES: the header is valid, no commit record is
// published.
HeldCounts CountHeld(ConstMetaView meta,
                     const std::function<bool(std::uint64_t session)>& returns = {});
// "2 live, 0 pinned and 1 published sequences with 900 tokens".
std::string HeldText(const HeldCounts& counts);

class Resizing {
 public:
  // REQUIRES: IsResized(from.geometry().meta, to.meta).
  Resizing(Memory& from, const MemoryGeometry& to) : from_(from), to_(to) {}

  // Errors: kConflict, with the numbers that are held and those that there would be.
  Status CheckHeld() const;
  // Evicts retained sequences until the rest fits. Returns how many. REQUIRES: CheckHeld.
  // Errors: kConflict (list units or slots, with the numbers).
  Result<std::uint32_t> Evict();
  // Copies the blocks and slots that lie behind the new end. Returns how many. REQUIRES: Evict.
  // Errors: kNoSpace, kIo, those of the probe.
  Result<std::uint32_t> CopyBehindEnd(const StateFiles& files);
  // Makes the parts of the pool as long as the new geometry needs. Errors: kNoSpace, kIo.
  Status GrowFiles(const StateFiles& files) const;
  // Writes `meta.new`. REQUIRES: CopyBehindEnd. Errors: kNoSpace, kIo; kInternal (the new `meta` is
  // not consistent).
  Status WriteMeta(const StateFiles& files) const;

 private:
  // The new number of each old block or slot of a part; layout::kNoSlot: it is not used.
  using Places = std::vector<std::uint32_t>;

  ConstMetaView old() const;
  std::uint32_t OldCount(std::size_t part) const;
  std::uint32_t NewCount(std::size_t part) const;
  bool IsUsed(std::size_t part, std::uint32_t number) const;
  bool IsFree(std::size_t part, std::uint32_t number) const;
  std::uint32_t CountUsed(std::size_t part) const;
  std::uint64_t CountListUnits(bool is_exact, bool held_only) const;
  bool Fits() const;
  // The first index after that of the last live sequence that `counts` accepts.
  template <class Counts>
  std::uint32_t EndOfSequences(const Counts& counts) const;
  std::uint32_t FirstGeneration() const;
  void WriteCells(const MetaView& meta) const;
  layout::ListRoot PutList(const MetaView& meta, const layout::ListRoot& root, bool is_exact,
                           std::uint32_t* next_unit) const;
  layout::ListRoot PutTokens(const MetaView& meta, const layout::ListRoot& root, bool is_exact,
                             std::uint32_t* next_unit) const;
  void WriteSequences(const MetaView& meta) const;

  Memory& from_;
  const MemoryGeometry& to_;
  std::array<Places, PoolParts::kCount> places_;
};

}  // namespace kvd
