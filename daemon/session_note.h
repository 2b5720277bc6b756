// What a memory keeps of a session for the daemon: an opaque note in the session's record, of the
// form that is written down here. A change of it raises layout::kLayoutVersion.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/client_process.h"
#include "engine/memory/sessions.h"
#include "shm/ids.h"

namespace kvd {

// A session whose client may come back, by its token, of which only a keyed hash is kept.
struct StoredSession {
  SessionId id = SessionId::kNone;
  std::uint32_t owner_uid = 0;
  std::array<std::uint8_t, 16> token_key{};   // drawn with the token
  std::array<std::uint8_t, 16> token_hash{};  // zero: no client can take it up
  ClientProcess process{};                    // that had it last
};

SessionNote NoteOf(const StoredSession& session);
SessionEntry EntryOf(const StoredSession& session);
StoredSession SessionOf(const SessionEntry& entry);

}  // namespace kvd
