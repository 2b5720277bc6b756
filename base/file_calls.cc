#include "base/file_calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace kvd {
namespace {

std::atomic<FileFault*> present_fault = nullptr;

// Returns whether the call has to fail, and sets errno.
bool HasToFail(FileCall call) {
  FileFault* const fault = present_fault.load(std::memory_order_acquire);
  const int error = fault == nullptr ? 0 : fault->ErrnoOf(call);
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace

void FileCalls::SetFault(FileFault* fault) {
  present_fault.store(fault, std::memory_order_release);
}

int FileCalls::MakeDirectory(const std::string& path, mode_t mode) {
  return MakeDirectoryAt(AT_FDCWD, path, mode);
}

int FileCalls::MakeDirectoryAt(int directory, const std::string& name, mode_t mode) {
  if (HasToFail(FileCall::kMakeDirectory)) return -1;
  return ::mkdirat(directory, name.c_str(), mode);
}

int FileCalls::Open(int directory, const std::string& name, int flags, mode_t mode) {
  if (HasToFail(FileCall::kOpen)) return -1;
  return ::openat(directory, name.c_str(), flags, mode);
}

ssize_t FileCalls::Read(int file, void* bytes, std::size_t byte_count, off_t offset) {
  if (HasToFail(FileCall::kRead)) return -1;
  return ::pread(file, bytes, byte_count, offset);
}

ssize_t FileCalls::Write(int file, const void* bytes, std::size_t byte_count) {
  if (HasToFail(FileCall::kWrite)) return -1;
  return ::write(file, bytes, byte_count);
}

ssize_t FileCalls::WriteAt(int file, const void* bytes, std::size_t byte_count, off_t offset) {
  if (HasToFail(FileCall::kWrite)) return -1;
  return ::pwrite(file, bytes, byte_count, offset);
}

int FileCalls::Truncate(int file, off_t byte_count) {
  if (HasToFail(FileCall::kTruncate)) return -1;
  return ::ftruncate(file, byte_count);
}

int FileCalls::Rename(int directory, const std::string& from, const std::string& to) {
  if (HasToFail(FileCall::kRename)) return -1;
  return ::renameat(directory, from.c_str(), directory, to.c_str());
}

int FileCalls::Unlink(int directory, const std::string& name) {
  if (HasToFail(FileCall::kUnlink)) return -1;
  return ::unlinkat(directory, name.c_str(), 0);
}

Status FileCalls::WriteAll(int file, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = Write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FailErrno(what);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace kvd
