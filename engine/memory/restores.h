// Restores: the content of an empty sequence comes from elsewhere (hold_and_restore.h). Part of Memory.
// Threads: any.
#pragma once

#include <cstdint>

#include "engine/memory/hold_and_restore.h"
#include "engine/memory/memory_store.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class Restores {
 public:
  explicit Restores(MemoryStore& store) : store_(store) {}
  Restores(const Restores&) = delete;
  Restores& operator=(const Restores&) = delete;

  // Finds fresh cells and slots for the content of a sequence that is empty. They belong to no
  // sequence until Commit. Errors: kNotFound; kPermission (published); kExists (it is not
  // empty); kInvalidArgument (a number of the request out of its range, by name); kWindowLost (the
  // next token would reach cells before first_cell); kUnsupported (a state or an encoded text that
  // the model does not have); kNoSpace, with the numbers.
  Result<Restore> Begin(const RestoreRequest& request);
  // Gives the sequence all of it in one commit. Errors: kConflict (the sequence was changed or
  // dropped meanwhile), kNoSpace (lists); nothing has changed then. Ends the restore either way.
  // REQUIRES: it is open.
  Status Commit(Restore& restore);

 private:
  Status CheckRestore(const RestoreRequest& request) const KVD_REQUIRES(store_.mutex);
  // The sequence, if it is empty. Errors: kNotFound, kPermission, kExists.
  Result<FoundSequence> FindEmpty(SequenceHandle handle) const KVD_REQUIRES(store_.mutex);
  Result<Restore> TryBegin(const RestoreRequest& request);
  Status ReserveRestored(const RestoreRequest& request, const layout::SequenceRecord& record,
                         Restore* restore) KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  void ReserveRestoredSlots(const RestoreRequest& request, const layout::SequenceRecord& record,
                            Restore* restore) KVD_REQUIRES(store_.mutex);
  // Makes the bytes of what was reserved safe to write, a little at a time.
  Status GrowForRestore(const Restore& restore);
  void WriteRestoredCells(const RestoreRequest& request, const Restore& restore);
  Status CommitRestored(std::uint32_t index, Restore& restore) KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
