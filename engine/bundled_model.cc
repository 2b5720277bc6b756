// The file is included by the assembler: no generated source, no second copy. KVD_BUNDLED_MODEL is
// its path (CMake).
#include "engine/bundled_model.h"

asm(".section .rodata\n"
    ".balign 64\n"
    "kvd_bundled_model_begin:\n"
    ".incbin \"" KVD_BUNDLED_MODEL
    "\"\n"
    "kvd_bundled_model_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const std::byte kvd_bundled_model_begin[];
extern const std::byte kvd_bundled_model_end[];
}

namespace kvd {

std::span<const std::byte> BundledModel() {
  return {kvd_bundled_model_begin, kvd_bundled_model_end};
}

}  // namespace kvd
