#include "daemon/session_note.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "shm/wire_messages.h"

namespace kvd {
namespace {

// The bytes of a session's note in `meta`.
struct NoteBytes {
  std::array<std::uint8_t, 16> token_key;
  std::array<std::uint8_t, 16> token_hash;
  std::uint64_t client_start;
  std::uint32_t client_pid;
  std::uint32_t pid_namespace;
  std::uint32_t outlive_seconds;
  std::uint32_t reserved[3];
};
static_assert(sizeof(NoteBytes) == layout::kSessionNoteBytes &&
              std::has_unique_object_representations_v<NoteBytes>);

}  // namespace

SessionNote NoteOf(const StoredSession& session) {
  const NoteBytes bytes{.token_key = session.token_key,
                        .token_hash = session.token_hash,
                        .client_start = session.process.start,
                        .client_pid = session.process.pid,
                        .pid_namespace = session.process.pid_namespace,
                        .outlive_seconds = session.outlive_seconds,
                        .reserved = {}};
  SessionNote note;
  std::memcpy(note.data(), &bytes, sizeof bytes);
  return note;
}

SessionEntry EntryOf(const StoredSession& session) {
  return {.id = session.id, .owner = session.owner, .note = NoteOf(session)};
}

StoredSession SessionOf(const SessionEntry& entry) {
  NoteBytes bytes;
  std::memcpy(&bytes, entry.note.data(), sizeof bytes);
  return {.id = entry.id,
          .owner = entry.owner,
          .token_key = bytes.token_key,
          .token_hash = bytes.token_hash,
          .process = {.pid = bytes.client_pid,
                      .start = bytes.client_start,
                      .pid_namespace = bytes.pid_namespace},
          .outlive_seconds = std::min(bytes.outlive_seconds, wire::kOutliveSecondsMax)};
}

}  // namespace kvd
