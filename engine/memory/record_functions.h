// Small pure functions over records that several verbs of a memory need.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/extents.h"
#include "engine/memory/request_tag.h"
#include "shm/ids.h"
#include "shm/segment_layout.h"

namespace kvd {

// The handle as error messages name it: "sequence 4294967299".
std::string HandleText(SequenceHandle handle);
std::uint64_t NowUnixMs();
// Sets pristine_cells and the flag that follows from it. REQUIRES: cell_count is set.
void SetPristine(layout::SequenceRecord* record, std::uint32_t pristine_cells);
// A step of that request appends to the record, which had past_cells.
void MarkRequest(const RequestTag& tag, std::uint32_t past_cells, layout::SequenceRecord* record);
// Distinct deltas of a list.
std::uint32_t CountDeltas(ExtentView view);

}  // namespace kvd
