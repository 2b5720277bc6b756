// The metadata that only some architectures have: which layers are recurrent, and the sizes of
// their states.
#pragma once

#include <string>

#include "engine/gguf_writer.h"
#include "tools/make_model/model_shape.h"

namespace kvd {

// Adds attention.head_count_kv and what is particular to shape.architecture. Hybrids have attention
// in every second layer, from the second on. `prefix`: "ARCHITECTURE.".
void AddArchitectureMetadata(const ModelShape& shape, const std::string& prefix,
                             GgufWriter& writer);

}  // namespace kvd
