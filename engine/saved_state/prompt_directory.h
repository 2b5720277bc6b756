// PromptDirectory: the files of a prompt cache on disk. PromptDirectory checks the owners of files,
// and lists, locks and removes files; PromptStore reads and writes their content.
//
// All daemons of one uid share one directory of mode 0700, whichever models they serve. Entries are
// created by rename, removed by unlink and never changed in place, so an open entry can always be
// read to its end. A file's modification time is the time of its last use. Threads: const methods
// may be called by several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "engine/memory/owner.h"
#include "engine/saved_state/prompt_room.h"

namespace kvd {

// The fields of an entry's file name.
struct PromptName {
  std::uint64_t model = 0;   // hash of the model
  std::uint64_t prompt = 0;  // hash of namespace and tokens
  // The owner that the entry counts for; unset in entries of older versions.
  std::optional<OwnerId> owner;
};

class PromptDirectory {
 public:
  // Creates the last component of the path and the key if they are missing. Errors, naming the
  // path: kPermission (another owner, accessible to others), kCorrupt (a key of the wrong length),
  // kIo.
  static Result<PromptDirectory> Open(const std::string& path);

  int descriptor() const { return directory_.get(); }
  // The key of all hashes in names and files; generated when the directory is created.
  const std::array<std::uint64_t, 2>& key() const { return key_; }

  // "MODEL-PROMPT-OWNER.prompt", each of 16 hexadecimal digits; "MODEL-PROMPT.prompt" without an
  // owner.
  static std::string NameOf(const PromptName& parts);
  // nullopt: not the name of an entry.
  static std::optional<PromptName> ParseName(std::string_view name);

  // All files with the name of an entry. Error: kIo.
  Result<std::vector<PromptFile>> List() const;
  // Opens an entry for reading. Errors: kNotFound; kPermission (a symbolic link, not a regular
  // file, owned by another uid); kIo.
  Result<UniqueFd> OpenFile(const std::string& name) const;
  // Sets the time of the entry's last use to the current time.
  void Touch(const std::string& name) const;
  // Removes an entry. Returns true also if another daemon has already removed the entry, and false
  // if the entry cannot be removed (for instance because it is a directory).
  bool Remove(const std::string& name) const;

  // WriteLock: the right to write an entry. The lock ends when the process that holds it ends, even
  // if that process is killed.
  class WriteLock {
   public:
    WriteLock(WriteLock&& other) noexcept = default;
    WriteLock& operator=(WriteLock&&) = delete;
    ~WriteLock();

   private:
    friend class PromptDirectory;
    WriteLock(int directory, std::string name, UniqueFd file)
        : directory_(directory), name_(std::move(name)), file_(std::move(file)) {}
    int directory_;
    std::string name_;
    UniqueFd file_;
  };
  // Locks an entry for writing. nullopt: another process or thread is writing the entry. Error:
  // kIo. The PromptDirectory must outlive the lock.
  Result<std::optional<WriteLock>> Lock(const std::string& name) const;
  // Removes locks and temporary files of writers that have ended.
  void RemoveLeftovers() const;

  // A descriptor that becomes readable when entries are created or removed; -1: the system does not
  // report changes.
  int changes_descriptor() const { return changes_.get(); }
  // Names of entries created or removed since the last call; nullopt: some names were lost.
  std::optional<std::vector<std::string>> TakeChanges() const;

 private:
  PromptDirectory(UniqueFd directory, UniqueFd changes, std::array<std::uint64_t, 2> key)
      : directory_(std::move(directory)), changes_(std::move(changes)), key_(key) {}

  UniqueFd directory_;
  UniqueFd changes_;
  std::array<std::uint64_t, 2> key_;
};

}  // namespace kvd
