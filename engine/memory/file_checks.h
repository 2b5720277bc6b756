// Checks of a file before it is mapped.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace kvd {

// Checks an open file and returns its size in bytes. Errors: kPermission (not a regular file, owned
// by another user, accessible to group or others), kIo. Every error message begins with `name`.
Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name);

}  // namespace kvd
