// Files of the user's that a call reads or writes as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

// A regular file's bytes. Errors: kNotFound, kPermission, kIo, kInvalidArgument (no regular file).
Result<std::vector<std::byte>> ReadWholeFile(const std::string& path);

// A file that is written beside its place, synced, then renamed: there is the old file or the whole
// new one. Destroyed before Commit, it leaves nothing behind. Movable; one thread.
class WholeFileWriter {
 public:
  // Errors: kNotFound, kPermission, kIo.
  static Result<WholeFileWriter> Create(std::string path);
  WholeFileWriter(WholeFileWriter&& other) noexcept = default;
  WholeFileWriter& operator=(WholeFileWriter&&) = delete;
  ~WholeFileWriter();

  // Errors of both: kIo.
  Status Write(std::span<const std::byte> bytes);
  Status Commit();

 private:
  WholeFileWriter(std::string path, std::string beside, UniqueFd file)
      : path_(std::move(path)), beside_(std::move(beside)), file_(std::move(file)) {}

  std::string path_;
  std::string beside_;
  UniqueFd file_;  // none: committed, or moved from
};

}  // namespace kvd
