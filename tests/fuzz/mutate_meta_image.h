// The mutator of meta_attach_fuzz. Half of what it changes are numbers of live sequences: of their
// records, of the entries of their lists and of their cells. Others are rarely read, and a byte more
// or less would shift every table behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/memory/geometry.h"

namespace kvd::fuzz {

// The answer is the input's new length. `geometry`: that of the kind which the input names.
std::size_t MutateMetaImage(const layout::MetaGeometry& geometry, std::uint8_t* data,
                            std::size_t byte_count, std::size_t byte_count_max, unsigned seed);

}  // namespace kvd::fuzz
