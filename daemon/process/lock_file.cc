// The lock is taken with flock, not fcntl: a flock lock belongs to the open file description, so
// closing another descriptor of the same file does not release the lock.
#include "daemon/process/lock_file.h"
#include "base/text.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

namespace kvd {
namespace {

using Clock = std::chrono::steady_clock;

// A process that was killed keeps its locks until the kernel has freed its memory, which takes
// longest for gigabytes on a busy machine. A kvd that is started in its place waits for them.
constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kPause{10};
// Each try but the last finds that another process has removed the file.
constexpr int kTriesMax = 100;

// Takes the lock; false: errno says why not.
bool Lock(int file) {
  const auto deadline = Clock::now() + kPatience;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::string HolderOf(int file) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(file, text.data(), text.size() - 1, 0);
  const long pid = got > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
  return pid > 0 ? Concat("pid ", pid) : std::string("pid unknown");
}

}  // namespace

std::unexpected<Error> FailFile(const std::string& what, const char* detail) {
  const int saved = errno;
  const Code code = saved == ENOSPC || saved == EDQUOT ? Code::kNoSpace : Code::kIo;
  return Fail(code, what, ": ", detail, ": ", std::generic_category().message(saved));
}

namespace {

// Returns whether the name still names the open file.
bool IsStill(int directory, const std::string& name, const struct stat& file) {
  struct stat named{};
  return ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         named.st_dev == file.st_dev && named.st_ino == file.st_ino;
}

// Opens and locks the file. Returns an empty descriptor if the file was removed meanwhile.
Result<UniqueFd> TakeOnce(int directory, const std::string& name, const std::string& what) {
  UniqueFd file(::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailFile(what, "the lock cannot be opened");
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return FailFile(what, "the lock cannot be examined");
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, what, ": the lock is not a regular file of this uid");
  }
  if (!Lock(file.get())) {
    if (errno != EWOULDBLOCK) return FailFile(what, "the lock cannot be taken");
    return Fail(Code::kBusy, what, ": in use by another kvd, ", HolderOf(file.get()));
  }
  return IsStill(directory, name, found) ? std::move(file) : UniqueFd();
}

}  // namespace

Result<LockFile> LockFile::Take(int directory, const std::string& name, const std::string& what) {
  UniqueFd file;
  for (int tries = 0; !file; ++tries) {
    if (tries == kTriesMax) return Fail(Code::kBusy, what, ": the lock is removed again and again");
    KVD_TRY(file, TakeOnce(directory, name, what));
  }
  const std::string pid = Concat(::getpid(), "\n");
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return FailFile(what, "the pid cannot be written to the lock");
  }
  return LockFile(std::move(file), name);
}

void LockFile::Remove(int directory) const { (void)::unlinkat(directory, name_.c_str(), 0); }

}  // namespace kvd
