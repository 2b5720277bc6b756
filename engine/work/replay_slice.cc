#include "engine/work/replay_slice.h"

#include <algorithm>

#include "base/check.h"

namespace kvd {

void ReplaySlice::Fill(const Rewind& rewind, std::size_t tokens_max) {
  KVD_ASSERT(rewind.done < rewind.tokens.size());
  const std::size_t end = std::min(rewind.tokens.size(), rewind.done + tokens_max);
  // The tokens of a ubatch have consecutive positions, so a ubatch ends before a gap in the
  // positions.
  std::size_t last = rewind.done + 1;
  while (last < end && rewind.positions[last].value == rewind.positions[last - 1].value + 1) ++last;

  plan_.sequences.resize(1);
  plan_.count = 1;
  StepSequence& slice = plan_.sequences[0];
  slice.handle = rewind.handle;
  slice.past_cells = rewind.replay_from + static_cast<std::uint32_t>(rewind.done);
  slice.new_cells = static_cast<std::uint32_t>(last - rewind.done);
  slice.first_new_pos = rewind.positions[rewind.done];
  slice.tokens.assign(rewind.tokens.begin() + static_cast<std::ptrdiff_t>(rewind.done),
                      rewind.tokens.begin() + static_cast<std::ptrdiff_t>(last));
  const std::uint32_t cell_count = slice.past_cells + slice.new_cells;
  for (std::size_t group = 0; group < slice.groups.size(); ++group) {
    const GroupPart& whole = rewind.groups[group];
    GroupPart& part = slice.groups[group];
    part.first_cell = whole.first_cell;
    part.extents.clear();
    // A list whose cell count differs from that of the sequence is the list of an encoded text,
    // which is not cut, because tokens see an encoded text always as a whole.
    const bool is_cut = whole.cell_count == rewind.cell_count;
    part.cell_count = is_cut ? cell_count : whole.cell_count;
    for (const layout::Extent& extent : whole.extents) {
      if (extent.start >= part.cell_count) break;
      part.extents.push_back(extent);
    }
    part.first_new_extent = static_cast<std::uint32_t>(part.extents.size());
  }
  slice.state_from = rewind.done == 0 ? rewind.state_from : rewind.last_slot;
  slice.state_to = rewind.last_slot == rewind.slots[0] ? rewind.slots[1] : rewind.slots[0];
}

bool ReplaySlice::Advance(Rewind& rewind) const {
  rewind.done += row_count();
  rewind.last_slot = state_to();
  return rewind.done == rewind.tokens.size();
}

}  // namespace kvd
