// SlotFile: the sequences of a tenant's slots in a file, so that a gateway that was killed finds
// them again in the session that it resumes.
//
// The file (0600) has a u64 that tells sessions apart, then a u64 handle for each slot, 0 for none.
// It is written without fsync. Another session may have given the same handles to other sequences,
// so the handles are of use only together with their session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"

namespace kvd::http {

class SlotFile {
 public:
  // An empty path: nothing is kept. Errors: kIo.
  static Result<SlotFile> Open(const std::string& path, std::uint32_t slot_count);
  SlotFile() = default;

  // The session of the handles; 0: none.
  std::uint64_t session() const { return session_; }
  // Notes another session, and no sequences. A session that cannot be written is lost with the
  // process, and its handles with it.
  void Begin(std::uint64_t session);
  // The handles of an earlier process, one for each slot.
  const std::vector<SequenceHandle>& handles() const { return handles_; }
  // Writes a handle if it has changed. A handle that cannot be written is lost with the process.
  void Put(std::uint32_t slot, SequenceHandle handle);

 private:
  UniqueFd file_;
  std::uint64_t session_ = 0;
  std::vector<SequenceHandle> handles_;
};

}  // namespace kvd::http
