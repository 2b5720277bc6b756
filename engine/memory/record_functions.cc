#include "engine/memory/record_functions.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace kvd {

std::string HandleText(SequenceHandle handle) {
  return "sequence " + std::to_string(static_cast<std::uint64_t>(handle));
}

std::uint64_t NowUnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
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
  // Cells behind that one are of the request's own draws from now on.
  record->sampler.cell_count = std::min(record->sampler.cell_count, past_cells);
}

std::uint32_t CountDeltas(ExtentView view) {
  // Runs of one delta are long and deltas few; only a list with many runs is worth sorting.
  std::vector<std::int32_t> deltas;
  for (const layout::Extent& extent : view.entries) {
    if (deltas.empty() || deltas.back() != extent.delta) deltas.push_back(extent.delta);
  }
  std::sort(deltas.begin(), deltas.end());
  return static_cast<std::uint32_t>(std::unique(deltas.begin(), deltas.end()) - deltas.begin());
}

}  // namespace kvd
