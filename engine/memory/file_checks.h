// What is asked of a file before it is mapped.
#pragma once

#include <cstdint>
#include <string>

#include "shm/error.h"

namespace kvd {

// The size of an open file in bytes. Errors: kPermission (not a regular file, another owner, others
// may open it), kIo. `name` begins every message.
Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name);

}  // namespace kvd
