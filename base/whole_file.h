// Functions that read and write the user's files as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// Reads a regular file. Errors: kNotFound, kPermission, kIo, kInvalidArgument (not a regular file).
Result<std::vector<std::byte>> ReadWholeFile(const std::string& path);

// What a writer does with a file that its path names already.
enum class ExistingFile : bool { kReplace, kKeep };

// Returns the error of a failed system call that writes a file, as FailErrno does: kNoSpace if the
// file system or the quota is full, else kIo.
std::unexpected<Error> FailWriting(std::string_view what);

// A WholeFileWriter writes a temporary file in the folder of the path; Commit syncs the temporary
// file and renames it to the path, so the path always has the old file or the complete new one.
// If Commit was not called, the destructor removes the temporary file. A WholeFileWriter is movable
// and is used by one thread at a time.
class WholeFileWriter {
 public:
  // Errors: kNotFound, kPermission, kIo, kNoSpace.
  static Result<WholeFileWriter> Create(std::string path);
  WholeFileWriter(WholeFileWriter&& other) noexcept = default;
  WholeFileWriter& operator=(WholeFileWriter&&) = delete;
  ~WholeFileWriter();

  // Errors of Write and Commit: kIo, kNoSpace; of Commit also kExists (kKeep, and the path names a
  // file).
  Status Write(std::span<const std::byte> bytes);
  Status Commit(ExistingFile existing = ExistingFile::kReplace);

 private:
  WholeFileWriter(std::string path, std::string beside, UniqueFd file)
      : path_(std::move(path)), beside_(std::move(beside)), file_(std::move(file)) {}

  std::string path_;
  std::string beside_;
  UniqueFd file_;  // the temporary file; empty after Commit or after a move
};

}  // namespace kvd
