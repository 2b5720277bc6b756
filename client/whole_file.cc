#include "client/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace kvd {
namespace {

std::unexpected<Error> FailOpen(const std::string& path) {
  const int number = errno;
  Error error = FailErrno(path).error();
  if (number == ENOENT) error.code = Code::kNotFound;
  if (number == EACCES || number == EPERM) error.code = Code::kPermission;
  return std::unexpected(std::move(error));
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

Result<WholeFileWriter> WholeFileWriter::Create(std::string path) {
  std::string beside = path + "." + std::to_string(::getpid()) + ".tmp";
  UniqueFd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return FailOpen(beside);
  return WholeFileWriter(std::move(path), std::move(beside), std::move(file));
}

WholeFileWriter::~WholeFileWriter() {
  if (file_) ::unlink(beside_.c_str());
}

Status WholeFileWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailErrno(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status WholeFileWriter::Commit() {
  if (::fsync(file_.get()) != 0) return FailErrno(path_);
  if (::rename(beside_.c_str(), path_.c_str()) != 0) return FailErrno(path_);
  file_.reset();
  return {};
}

}  // namespace kvd
