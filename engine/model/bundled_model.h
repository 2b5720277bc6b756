// The model that kvd serves if none is named: models/notebook-1m-q8_0.gguf, linked into the binary.
#pragma once

#include <cstddef>
#include <span>

namespace kvd {

// A whole GGUF file, aligned to 64 bytes. The bytes are valid until the process ends.
std::span<const std::byte> BundledModel();

}  // namespace kvd
