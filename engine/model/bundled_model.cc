// The assembler includes the model file, so that neither a generated source nor a second copy of
// the file is needed. KVD_BUNDLED_MODEL is the file's path (set by CMake).
#include "engine/model/bundled_model.h"

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
