// SlotDirectory: the files of --slot-save-path, or those of one tenant below it.
//
// Names of files are [A-Za-z0-9_-][A-Za-z0-9._-]*, and no symbolic link is followed, so a client
// reaches no file outside of the directory. A file is written beside its place and renamed, so a
// name always has a whole file. Any thread may use a SlotDirectory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "http/answer/slots.h"

namespace kvd::http {

inline constexpr std::size_t kSlotFileNameMax = 200;
bool IsSlotFileName(std::string_view name);

class SlotDirectory;

// A file that is being written. Without Commit, the destructor removes it. The SlotDirectory must
// outlive it. Errors: kIo.
class NewSlotFile {
 public:
  NewSlotFile(const SlotDirectory& directory, UniqueFd file, std::string beside, std::string name)
      : directory_(directory),
        file_(std::move(file)),
        beside_(std::move(beside)),
        name_(std::move(name)) {}
  ~NewSlotFile();
  NewSlotFile(const NewSlotFile&) = delete;
  NewSlotFile& operator=(const NewSlotFile&) = delete;

  Status Write(std::span<const std::byte> bytes);
  // Writes the file to disk and gives it its name, in place of an older file.
  Status Commit();

 private:
  const SlotDirectory& directory_;
  UniqueFd file_;  // none after Commit
  std::string beside_;
  std::string name_;
};

class SlotDirectory {
 public:
  // Opens the folder of a tenant, and makes it (0700) if it is a tenant's. Errors: kIo.
  static Result<SlotDirectory> Open(const SlotFolder& slot_folder);
  // Checks that another file of `byte_count` bytes, in place of one that has its name, keeps to the
  // limits of the folder. Temporary files that were left behind are removed. Errors: kTooLarge,
  // with the number and the limit; kIo.
  Status CheckRoom(const std::string& name, std::uint64_t byte_count) const;

  // REQUIRES, for both: IsSlotFileName(name). Errors: kIo; of Read: kInvalidArgument: no such file,
  // not a regular file, or more than `bytes_max` bytes.
  Result<std::unique_ptr<NewSlotFile>> Create(const std::string& name) const;
  Result<std::vector<std::byte>> Read(const std::string& name, std::uint64_t bytes_max) const;

 private:
  friend class NewSlotFile;
  SlotDirectory(UniqueFd directory, const SlotFolder& slot_folder)
      : directory_(std::move(directory)),
        bytes_max_(slot_folder.bytes_max),
        count_max_(slot_folder.count_max) {}
  UniqueFd OpenBeneath(const std::string& name, std::uint64_t flags, std::uint64_t mode) const;

  UniqueFd directory_;
  std::uint64_t bytes_max_;
  std::size_t count_max_;
};

}  // namespace kvd::http
