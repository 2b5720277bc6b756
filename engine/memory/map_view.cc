// What the live map is made of, in portions that hold the mutex for microseconds each: a publisher
// that walks 10,000 sequences lets others in between.
#include "engine/memory/unified_memory.h"

#include <algorithm>

namespace kvd {

std::uint64_t UnifiedMemory::commit_number() const {
  const MutexLock lock(mutex_);
  return log_.next_number();
}

std::uint32_t UnifiedMemory::VisitSequences(std::uint32_t first_index, std::uint32_t end_index,
                                            std::size_t extents_max,
                                            SequenceVisitor& visitor) const {
  const MutexLock lock(mutex_);
  const std::uint32_t end = std::min(end_index, meta_.geometry().sequence_capacity);
  std::size_t extents_seen = 0;
  for (std::uint32_t index = first_index; index < end; ++index) {
    if (extents_seen >= extents_max) return index;
    const layout::SequenceRecord& record = meta_.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    const ExtentView view = ViewOf(record);
    visitor.Visit(Describe(index, record), CountSharedCells(view), record.checkpoints.entry_count,
                  view.entries);
    extents_seen += view.entries.size() + 1;
  }
  return end_index;
}

}  // namespace kvd
