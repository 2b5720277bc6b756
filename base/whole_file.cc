#include "base/whole_file.h"
#include "base/text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace kvd {
namespace {

std::unexpected<Error> FailOpen(const std::string& path) {
  const int number = errno;
  Error error = FailWriting(path).error();
  if (number == ENOENT) error.code = Code::kNotFound;
  if (number == EACCES || number == EPERM) error.code = Code::kPermission;
  return std::unexpected(std::move(error));
}

// Renames a file unless `to` names one. False: errno says why not, EEXIST for an existing file.
bool RenameBesideExisting(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // A file system that does not know the flag, such as NFS, has links.
  if (errno != EINVAL || ::link(from.c_str(), to.c_str()) != 0) return false;
  (void)::unlink(from.c_str());
  return true;
}

}  // namespace

std::unexpected<Error> FailWriting(std::string_view what) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT;
  auto failed = FailErrno(what);
  if (is_full) failed.error().code = Code::kNoSpace;
  return failed;
}

Result<std::vector<std::byte>> ReadWholeFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return FailOpen(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return FailErrno(path);
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalidArgument, path, ": not a regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(path);
    if (got == 0) break;  // another process has truncated the file after fstat
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Result<WholeFileWriter> WholeFileWriter::Create(std::string path) {
  // A temporary file of the chosen name exists already if another thread writes the same path, or
  // if a process with the same id was killed while it wrote.
  constexpr int kAttempts = 100;
  static std::atomic<std::uint64_t> next_number = 0;
  for (int attempt = 1;; ++attempt) {
    std::string beside = Concat(path, ".", ::getpid(), "-", ++next_number, ".tmp");
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    UniqueFd file(::open(beside.c_str(), kFlags, 0666));
    if (file) return WholeFileWriter(std::move(path), std::move(beside), std::move(file));
    if (errno != EEXIST || attempt == kAttempts) return FailOpen(beside);
  }
}

WholeFileWriter::~WholeFileWriter() {
  if (file_) ::unlink(beside_.c_str());
}

Status WholeFileWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailWriting(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status WholeFileWriter::Commit(ExistingFile existing) {
  if (::fsync(file_.get()) != 0) return FailWriting(path_);
  const bool is_renamed = existing == ExistingFile::kReplace
                              ? ::rename(beside_.c_str(), path_.c_str()) == 0
                              : RenameBesideExisting(beside_, path_);
  if (!is_renamed) {
    const int number = errno;
    Error error = FailWriting(path_).error();
    if (number == EEXIST) error.code = Code::kExists;
    return std::unexpected(std::move(error));
  }
  file_.reset();
  return {};
}

}  // namespace kvd
