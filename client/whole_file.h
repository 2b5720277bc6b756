// Files of the user's that a call reads or writes in one go.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shm/error.h"

namespace kvd {

// A regular file's bytes. Errors: kNotFound, kPermission, kIo, kInvalidArgument (no regular file).
Result<std::vector<std::byte>> ReadWholeFile(const std::string& path);
// Written beside it, synced, then renamed: there is the old file or the whole new one. Errors: kIo.
Status WriteWholeFile(const std::string& path, std::span<const std::byte> bytes);

}  // namespace kvd
