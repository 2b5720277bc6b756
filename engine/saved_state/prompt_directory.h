// PromptDirectory: the files of a prompt cache: who owns them, how they are found, locked, kept
// within a bound and removed. What is in them is PromptStore's.
//
// One directory, mode 0700, is shared by all daemons of a uid, of one model or of several. Entries
// appear by rename and go by unlink, nothing is changed in place: whoever has one open reads it to
// its end. The time of change of a file is that of its last use. Threads: const, by several at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/memory/owner.h"
#include "engine/saved_state/prompt_room.h"
#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

// What the name of an entry says.
struct PromptName {
  std::uint64_t model = 0;       // hash of the model
  std::uint64_t prompt = 0;      // hash of namespace and tokens
  std::optional<OwnerId> owner;  // whom it counts for; entries of older versions do not say
};

class PromptDirectory {
 public:
  // Makes the last component if it is missing, and its key. Errors, naming the path: kPermission
  // (another owner, others may look), kCorrupt (a key of the wrong length), kIo.
  static Result<PromptDirectory> Open(const std::string& path);

  int descriptor() const { return directory_.get(); }
  // Of all hashes that names and files carry; drawn when the directory was made.
  const std::array<std::uint64_t, 2>& key() const { return key_; }

  // "MODEL-PROMPT-OWNER.prompt", each of 16 hexadecimal digits; "MODEL-PROMPT.prompt" without an
  // owner.
  static std::string NameOf(const PromptName& parts);
  // nullopt: no entry's name.
  static std::optional<PromptName> ParseName(std::string_view name);

  // Everything with an entry's name. Error: kIo.
  Result<std::vector<PromptFile>> List() const;
  // For reading. Errors: kNotFound; kPermission (a link, no regular file, another's); kIo.
  Result<UniqueFd> OpenFile(const std::string& name) const;
  // It was used now.
  void Touch(const std::string& name) const;
  // False: it was not there, or is a directory.
  bool Remove(const std::string& name) const;

  // Who writes an entry. It goes with its process, however that ends.
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
  // nullopt: somebody else writes it. Error: kIo. The directory outlives the lock.
  Result<std::optional<WriteLock>> Lock(const std::string& name) const;
  // What writers that are gone have left: locks and temporaries.
  void RemoveLeftovers() const;

  // Becomes readable when entries come or go; -1: the system gives none.
  int changes_descriptor() const { return changes_.get(); }
  // Names of entries that came or went since the last call; nullopt: too many to tell.
  std::optional<std::vector<std::string>> TakeChanges() const;

 private:
  PromptDirectory(UniqueFd directory, UniqueFd changes, std::array<std::uint64_t, 2> key)
      : directory_(std::move(directory)), changes_(std::move(changes)), key_(key) {}

  UniqueFd directory_;
  UniqueFd changes_;
  std::array<std::uint64_t, 2> key_;
};

}  // namespace kvd
