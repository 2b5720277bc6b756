// JournalFolder: the folder of the journals (answer/answer_journal.h), and those that were set
// aside because running them ends the process.
//
// HASH.journal is the journal of one tenant and id; HASH.bad is one that was set aside, which only
// a person reads. There are at most kBadMax of them; the oldest are removed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd::http {

class JournalFolder {
 public:
  static constexpr std::size_t kBadMax = 16;

  // Makes the folder with mode 0700 if it does not exist. An empty path: there is no folder.
  // Errors: kIo.
  static Result<JournalFolder> Open(const std::string& path);

  explicit operator bool() const { return static_cast<bool>(directory_); }
  int descriptor() const { return directory_.get(); }
  // The name of a job's journal. Ids are any text, so the name is a hash; the id is in the file.
  static std::string NameOf(const std::string& tenant, const std::string& id);
  // The names of all journals. Errors: kIo.
  Result<std::vector<std::string>> Names() const;
  // Renames HASH.journal to HASH.bad, and returns this name. Errors: kIo; the journal stays.
  Result<std::string> SetAside(const std::string& name) const;

 private:
  Result<std::vector<std::string>> NamesWith(std::string_view ending) const;
  void RemoveOldestBad() const;

  UniqueFd directory_;
};

}  // namespace kvd::http
