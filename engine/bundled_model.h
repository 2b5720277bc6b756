// The model that kvd serves when none is named: models/notebook-1m-q8_0.gguf, linked into the
// binary.
#pragma once

#include <cstddef>
#include <span>

namespace kvd {

// A whole GGUF file, 64-byte aligned, for ever.
std::span<const std::byte> BundledModel();

}  // namespace kvd
