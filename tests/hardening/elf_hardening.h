// MissingHardening: finds out from an ELF file (elf(5)) with which hardening flags of
// cmake/options.cmake it was built. An ELF file shows exactly with which linker flags it was built;
// compiler flags are recognised by traces in the code.
#pragma once

#include <string>
#include <vector>

namespace kvd::test {

// Returns the flags of which the executable or shared library at `path` shows no trace, out of
// "pie", "relro", "bind_now", "plain_stack" (the stack is not executable), "stack_protector",
// "fortify", "assertions", "control_flow" and "stack_clash", in this order. {"unreadable"}: the
// file is not a 64-bit ELF file. The traces of compiler flags are: stack_protector, fortify,
// assertions: the function that a failed check calls is imported; control_flow: the function
// `entry`, which the file names, begins with endbr64; stack_clash: a frame is probed page by page
// (only large frames are).
std::vector<std::string> MissingHardening(const std::string& path, const std::string& entry);

}  // namespace kvd::test
