// Saving, restoring and erasing a slot. Files are llama.cpp's sequence files, as llama-server
// writes them for its slots, so that either server restores what the other one has saved.
//
// The slot is leased by the caller. A restore that fails leaves the slot as it was.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "http/answer/slots.h"
#include "http/answer/tenant_session.h"
#include "http/loop/await.h"

namespace kvd::http {

// The lock of the slot files of one tenant: a session does one import at a time, and the limits
// of a tenant's files are checked before a file is written.
struct FileLock {
  explicit FileLock(Loop& loop) : ended(loop) {}
  bool is_taken = false;
  Signal ended;
};

struct SlotFileInfo {
  std::uint64_t token_count = 0;
  std::uint64_t file_bytes = 0;
  std::chrono::nanoseconds time{0};
};

// Saves the tokens that llama-server would have computed: the last token of an answer is not among
// them. Errors: kInvalidArgument: the slot has no tokens; kTooLarge: a limit of the folder; those
// of the session and of the file. REQUIRES, for both: IsSlotFileName(name).
Await<Result<SlotFileInfo>> SaveSlot(TenantSession& tenant, const SlotLease& lease,
                                     SlotFolder slot_folder, const std::string& name,
                                     FileLock& lock);
// Errors: kInvalidArgument: the file is missing, damaged, of another model, or does not fit into a
// slot; those of the session.
Await<Result<SlotFileInfo>> RestoreSlot(TenantSession& tenant, const SlotLease& lease,
                                        SlotFolder slot_folder, const std::string& name,
                                        FileLock& lock);
// Returns the number of tokens that the slot had, without the last one of an answer.
Await<Result<std::uint64_t>> EraseSlot(TenantSession& tenant, const SlotLease& lease);

}  // namespace kvd::http
