#include "engine/memory/record_functions.h"
#include "base/text.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace kvd {

std::string HandleText(SequenceHandle handle) {
  return Concat("sequence ", static_cast<std::uint64_t>(handle));
}

void SetPristine(layout::SequenceRecord* record, std::uint32_t pristine_cells) {
  record->pristine_cells = std::min(pristine_cells, record->cell_count);
  if (record->pristine_cells < record->cell_count) {
    record->flags |= layout::kSequenceEdited;
  } else {
    record->flags &= ~static_cast<std::uint32_t>(layout::kSequenceEdited);
  }
}

void MarkRequest(const RequestTag& tag, std::uint32_t past_cells, layout::SequenceRecord* record) {
  const auto request = static_cast<std::uint64_t>(tag.request);
  const auto session = static_cast<std::uint64_t>(tag.session);
  if (record->request == request && record->request_session == session) return;
  record->request = request;
  record->request_session = request != 0 ? session : 0;
  record->request_first_cell = request != 0 ? past_cells : 0;
  // Cells after past_cells belong to the new request, so the stored sampler state covers at most
  // the first past_cells cells.
  record->sampler.cell_count = std::min(record->sampler.cell_count, past_cells);
}

std::uint32_t CountDeltas(ExtentView view) {
  // Neighbouring extents usually have the same delta, so only the first delta of each run of equal
  // deltas is kept for sorting.
  std::vector<std::int32_t> deltas;
  for (const layout::Extent& extent : view.entries) {
    if (deltas.empty() || deltas.back() != extent.delta) deltas.push_back(extent.delta);
  }
  std::sort(deltas.begin(), deltas.end());
  return static_cast<std::uint32_t>(std::unique(deltas.begin(), deltas.end()) - deltas.begin());
}

}  // namespace kvd
