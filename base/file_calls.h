// FileCalls: the system calls by which a store reads and changes its files, and the seam at which a
// test makes any of them fail.
//
// The functions set errno and return what the system call returns. A test sets a FileFault, which
// is asked before each call; production code sets none. One process has one fault; the calls may
// come from any thread, so a fault of a test with threads has to be thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {

enum class FileCall : std::uint8_t {
  kMakeDirectory,
  kOpen,
  kRead,
  kWrite,
  kTruncate,
  kRename,
  kUnlink,
};

class FileFault {
 public:
  virtual ~FileFault() = default;
  // Returns the errno with which the call fails; 0: the call is made.
  virtual int ErrnoOf(FileCall call) = 0;

 protected:
  FileFault() = default;
  FileFault(const FileFault&) = default;
  FileFault& operator=(const FileFault&) = default;
};

class FileCalls {
 public:
  static int MakeDirectory(const std::string& path, mode_t mode);
  static int MakeDirectoryAt(int directory, const std::string& name, mode_t mode);
  // `directory`: AT_FDCWD for a path.
  static int Open(int directory, const std::string& name, int flags, mode_t mode = 0);
  static ssize_t Read(int file, void* bytes, std::size_t byte_count, off_t offset);
  static ssize_t Write(int file, const void* bytes, std::size_t byte_count);
  static ssize_t WriteAt(int file, const void* bytes, std::size_t byte_count, off_t offset);
  static int Truncate(int file, off_t byte_count);
  static int Rename(int directory, const std::string& from, const std::string& to);
  static int Unlink(int directory, const std::string& name);

  // Writes all bytes: a write that was interrupted or short is continued, so that the error is that
  // of the call which fails, and not of the one before it. Errors: kIo, "WHAT: errno text"; some of
  // the bytes may be written.
  static Status WriteAll(int file, std::string_view bytes, std::string_view what);

  // For tests. Null: no call fails. REQUIRES: `fault` outlives its use.
  static void SetFault(FileFault* fault);
};

}  // namespace kvd
