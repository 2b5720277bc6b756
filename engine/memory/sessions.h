// Sessions: what a memory remembers of its users, so that a client that comes back, also to another daemon
// over the same `meta`, finds its sequences and what was applied of its requests. Part of Memory.
// Threads: any.
//
// A request is applied once: the commit that applies it also writes its id into the session's window
// (layout::SessionRecord), so after a crash both are there or neither.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/memory/memory_store.h"
#include "engine/memory/owner.h"
#include "engine/memory/request_tag.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// What the memory's user keeps of a session's client; the memory does not know what it means.
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

  // Remembers a session from now on. Errors: kNoSpace (all records are taken), kExists,
  // kInvalidArgument (no id).
  Status Open(const SessionEntry& session);
  // Forgets it and its window; its sequences stay as they are. Error: kNotFound.
  Status Close(SessionId session);
  // Error: kNotFound.
  Status SetNote(SessionId session, const SessionNote& note);
  std::vector<SessionEntry> List() const;
  // The largest id of a stored session or of a sequence's owner: new ones are beyond it.
  SessionId Last() const;

  // Remembers a request by a commit of its own: one that changes what is not in this memory, before
  // it does so and once more at its end. Nothing for a session that is not stored.
  enum class Stage : std::uint8_t { kBegun, kEnded };
  Status Remember(const RequestTag& tag, Stage stage, std::uint32_t cells);
  // What an applied request was answered. Errors: kNotFound (it was not applied); kConflict (so
  // many were applied since that this is not known any more).
  Result<AppliedReply> FindApplied(SessionId session, RequestId request) const;
  // The largest request id of the session that anything remembers; 0: none.
  RequestId LastRequest(SessionId session) const;
  // Sequences that the request made and that are still there, by index.
  std::vector<SequenceHandle> CreatedBy(SessionId session, RequestId request) const;

 private:
  MemoryStore& store_;
};

}  // namespace kvd
