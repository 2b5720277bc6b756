// Finds the sequence that has the most tokens in common with a prompt, and the token that follows
// the common tokens in that sequence. The result explains why no more tokens of the prompt are
// reused. The search covers only the namespaces that Take searches.
#include "engine/memory/prefix_cache.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"

namespace kvd {

PrefixNeighbour PrefixCache::FindNeighbour(const SequenceOwner& owner,
                                           std::span<const TokenId> tokens) const {
  const MutexLock lock(store_.mutex);
  PrefixNeighbour nearest;
  PrefixIndex::Match match;
  for (const PrefixSpace& space :
       {PrivateSpace(owner.id, owner.namespace_salt), PublishedSpace(owner.id, false),
        PublishedSpace(owner.id, true)}) {
    store_.prefix.index.Find(space, tokens, PrefixIndex::Serves::kAnyDepth, &match);
    for (const PrefixIndex::Candidate& candidate : match.candidates) {
      const layout::SequenceRecord& record = store_.meta.sequences()[candidate.sequence];
      const bool goes_on = record.cell_count > candidate.depth;
      // Of several sequences with the same number of common tokens, a sequence that has a next
      // token is preferred.
      const bool is_nearer =
          candidate.depth > nearest.common ||
          (candidate.depth == nearest.common && goes_on && !nearest.next.has_value());
      if (candidate.depth == 0 || !is_nearer) continue;
      nearest = {.sequence = MakeHandle(candidate.sequence, record.generation),
                 .common = candidate.depth};
      if (goes_on) nearest.next = store_.CellsOf(record).RecordAt(candidate.depth).token;
    }
  }
  return nearest;
}

}  // namespace kvd
