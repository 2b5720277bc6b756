#include "client/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "shm/unique_fd.h"

namespace kvd {
namespace {

std::unexpected<Error> FailOpen(const std::string& path) {
  const int number = errno;
  Error error = FailErrno(path).error();
  if (number == ENOENT) error.code = Code::kNotFound;
  if (number == EACCES || number == EPERM) error.code = Code::kPermission;
  return std::unexpected(std::move(error));
}

Status WriteAll(int file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailErrno(path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::fsync(file) != 0) return FailErrno(path);
  return {};
}

}  // namespace

Result<std::vector<std::byte>> ReadWholeFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return FailOpen(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return FailErrno(path);
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalidArgument, path + ": no regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(path);
    if (got == 0) break;  // it has become shorter
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Status WriteWholeFile(const std::string& path, std::span<const std::byte> bytes) {
  const std::string beside = path + "." + std::to_string(::getpid()) + ".tmp";
  const UniqueFd file(
      ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return FailOpen(beside);
  Status done = WriteAll(file.get(), beside, bytes);
  if (done && ::rename(beside.c_str(), path.c_str()) != 0) done = FailErrno(path);
  if (!done) ::unlink(beside.c_str());
  return done;
}

}  // namespace kvd
