#include "engine/memory/file_checks.h"

#include <sys/stat.h>
#include <unistd.h>

namespace kvd {

Result<std::uint64_t> CheckOwnFile(int descriptor, const std::string& name) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return FailErrno(name + ": fstat");
  if (!S_ISREG(found.st_mode)) return Fail(Code::kPermission, name, ": not a regular file");
  if (found.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, name, ": belongs to uid ", found.st_uid,
                ", not to the daemon's (", ::geteuid(), ")");
  }
  if ((found.st_mode & 077) != 0)
    return Fail(Code::kPermission, name, ": mode: gives access to group or others");
  return static_cast<std::uint64_t>(found.st_size);
}

}  // namespace kvd
