// The mutator of meta_attach_fuzz. Half of its mutations change a number of a live sequence: in its
// record, in an entry of its lists, or in one of its cells. The daemon rarely reads other numbers
// of a `meta`. No mutation adds or removes a byte, because that would shift every following table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/memory/geometry.h"

namespace kvd::fuzz {

// Changes the input and returns its length. `geometry`: the geometry of the kind of memory that the
// input names.
std::size_t MutateMetaImage(const layout::MetaGeometry& geometry, std::uint8_t* data,
                            std::size_t byte_count, std::size_t byte_count_max, unsigned seed);

}  // namespace kvd::fuzz
