// Converts the daemon's data about a session to the opaque note that the memory stores in the
// session's record. session_note.h and session_note.cc define the form of the note. A change of the
// form of the note requires a new layout::kLayoutVersion.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "daemon/client_process.h"
#include "engine/memory/sessions.h"

namespace kvd {

// A session that its client may resume with a token. A StoredSession has only a keyed hash of the
// session's token.
struct StoredSession {
  SessionId id = SessionId::kNone;
  OwnerId owner{};
  // Key of the token's hash; drawn together with the token.
  std::array<std::uint8_t, 16> token_key{};
  // Keyed hash of the token; zero: no client can resume the session.
  std::array<std::uint8_t, 16> token_hash{};
  ClientProcess process{};  // the client's last process
  // Seconds for which the session waits for another process after the connection is lost; 0: it
  // ends with the client's process.
  std::uint32_t outlive_seconds = 0;
};

SessionNote NoteOf(const StoredSession& session);
SessionEntry EntryOf(const StoredSession& session);
StoredSession SessionOf(const SessionEntry& entry);

}  // namespace kvd
