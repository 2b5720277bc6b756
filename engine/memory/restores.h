// Restores: fills an empty sequence with content from elsewhere, for instance from a file
// (hold_and_restore.h). Restores is a part of Memory. Threads: any.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/hold_and_restore.h"
#include "engine/memory/memory_store.h"

namespace kvd {

class Restores {
 public:
  explicit Restores(MemoryStore& store) : store_(store) {}
  Restores(const Restores&) = delete;
  Restores& operator=(const Restores&) = delete;

  // Reserves new cells and slots for the content of an empty sequence. The cells and slots belong
  // to no sequence until Commit. Errors: kNotFound; kPermission (published); kExists (the sequence
  // is not empty); kInvalidArgument (a number of the request is out of its range, named in the
  // message); kWindowLost (the next token would reach cells before first_cell); kUnsupported (the
  // model has no recurrent state or no encoder for the given content); kNoSpace, with the numbers.
  Result<Restore> Begin(const RestoreRequest& request);
  // Gives the whole content to the sequence in one commit and ends the restore, also on error.
  // Errors: kConflict (the sequence was changed or dropped), kNoSpace (lists); nothing has changed
  // then. REQUIRES: the restore is open.
  Status Commit(Restore& restore);

 private:
  Status CheckRestore(const RestoreRequest& request) const KVD_REQUIRES(store_.mutex);
  // The sequence of the handle, which must be empty. Errors: kNotFound, kPermission, kExists.
  Result<FoundSequence> FindEmpty(SequenceHandle handle) const KVD_REQUIRES(store_.mutex);
  Result<Restore> TryBegin(const RestoreRequest& request);
  Status ReserveRestored(const RestoreRequest& request, const layout::SequenceRecord& record,
                         Restore* restore) KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  void ReserveRestoredSlots(const RestoreRequest& request, const layout::SequenceRecord& record,
                            Restore* restore) KVD_REQUIRES(store_.mutex);
  // Makes the bytes of the reserved blocks and slots safe to write, some blocks at a time.
  Status GrowForRestore(const Restore& restore);
  void WriteRestoredCells(const RestoreRequest& request, const Restore& restore);
  Status CommitRestored(std::uint32_t index, Restore& restore) KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
