// Sessions: the records of client sessions that a memory keeps, so that a client that reconnects,
// even to another daemon over the same `meta`, finds its sequences and learns which of its requests
// were applied. Sessions is a part of Memory. Threads: any.
//
// A request is applied at most once: the commit that applies it also writes its id into the
// session's window (layout::SessionRecord), so after a crash either both the change and the id are
// present or neither is.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/owner.h"
#include "engine/memory/request_tag.h"

namespace kvd {

// Data that the daemon stores with a session; the memory does not interpret it.
using SessionNote = std::array<std::byte, layout::kSessionNoteBytes>;

struct SessionEntry {
  SessionId id = SessionId::kNone;
  OwnerId owner{};
  SessionNote note{};
};

class Sessions {
 public:
  explicit Sessions(MemoryStore& store) : store_(store) {}
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Stores a session. Errors: kNoSpace (all records are taken), kExists, kInvalidArgument (id 0).
  Status Open(const SessionEntry& session);
  // Removes the session and its window; its sequences stay. Error: kNotFound.
  Status Close(SessionId session);
  // Error: kNotFound.
  Status SetNote(SessionId session, const SessionNote& note);
  std::vector<SessionEntry> List() const;
  // The largest id of a stored session or of a session that owns a sequence; new ids must be
  // larger.
  SessionId Last() const;

  // Records a request in a separate commit. Remember is used for requests that make a change
  // outside of this memory, for instance to files: it is called once before the change (kBegun) and
  // once after it (kEnded). No effect for a session that is not stored.
  enum class Stage : std::uint8_t { kBegun, kEnded };
  Status Remember(const RequestTag& tag, Stage stage, std::uint32_t cells);
  // Returns the recorded answer of an applied request. Errors: kNotFound (the request was not
  // applied); kConflict (it is unknown whether the request was applied, because later requests have
  // overwritten its record).
  Result<AppliedReply> FindApplied(SessionId session, RequestId request) const;
  // The largest request id recorded for the session; 0: none.
  RequestId LastRequest(SessionId session) const;
  // The existing sequences that the request made, by index.
  std::vector<SequenceHandle> CreatedBy(SessionId session, RequestId request) const;

 private:
  MemoryStore& store_;
};

}  // namespace kvd
