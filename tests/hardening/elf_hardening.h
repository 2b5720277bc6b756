// What an ELF file (elf(5)) tells about the flags of cmake/options.cmake that bound the harm of a
// fault: of the link exactly, of the compiler by the traces that its code leaves.
#pragma once

#include <string>
#include <vector>

namespace kvd::test {

// Each with "pie", "relro", "bind_now", "plain_stack" (not executable), "stack_protector",
// "fortify", "assertions", "control_flow" or "stack_clash", in that order: those of which the
// executable or shared library at `path` shows nothing. {"unreadable"}: it is no 64-bit ELF file.
//   stack_protector, fortify, assertions: what a failed check calls is imported;
//   control_flow: `entry`, a function that is named in the file, begins with endbr64;
//   stack_clash: some frame is probed page by page (large frames alone are).
std::vector<std::string> MissingHardening(const std::string& path, const std::string& entry);

}  // namespace kvd::test
