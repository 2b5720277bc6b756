// This header declares small functions over sequence records that several verbs of a memory use.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "engine/memory/extents.h"
#include "engine/memory/request_tag.h"
#include "shm/segment_layout.h"

namespace kvd {

// The handle as error messages show it: "sequence 4294967299".
std::string HandleText(SequenceHandle handle);
// Sets pristine_cells and the flag kSequenceEdited, which depends on pristine_cells. REQUIRES:
// cell_count is set.
void SetPristine(layout::SequenceRecord* record, std::uint32_t pristine_cells);
// Marks the record as computed by the request of `tag`; past_cells: the record's cells before the
// request's step.
void MarkRequest(const RequestTag& tag, std::uint32_t past_cells, layout::SequenceRecord* record);
// The number of distinct deltas of a list.
std::uint32_t CountDeltas(ExtentView view);

}  // namespace kvd
