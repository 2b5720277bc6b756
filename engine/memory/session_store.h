// What Memory remembers of sessions, so that a client that comes back, also to another daemon over
// the same `meta`, finds its sequences and what was applied of its requests.
//
// Plain values. A request is applied once: the commit that applies it also writes its id into the
// session's window (layout::SessionRecord), so after a crash both are there or neither.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// On whose behalf a verb or a step changes something.
struct AppliedRequest {
  SessionId session = SessionId::kNone;
  RequestId request{};     // 0: nobody's; nothing is remembered
  std::uint16_t verb = 0;  // wire::Verb
  // False: a part of the request, after which more commits follow. Sequences that are made are
  // marked as its own, and the request is not remembered as applied.
  bool completes = true;
  std::uint32_t replayed = 0;  // tokens computed again for it, for its answer

  bool is_somebodys() const { return request != RequestId{}; }
};

// What is remembered of an applied request: layout::AppliedRecord.
struct AppliedReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t cells = 0;
  std::uint32_t replayed = 0;
  std::uint16_t verb = 0;
  std::uint16_t created = 0;  // sequences made
  bool has_ended = true;      // else what it changes outside this memory may be changed or not
};

// A process, told apart from a later one of the same number; all 0: not known.
struct ClientProcess {
  std::uint32_t pid = 0;
  std::uint64_t start = 0;          // clock ticks since the boot
  std::uint64_t pid_namespace = 0;  // in which the pid is one
  friend bool operator==(const ClientProcess&, const ClientProcess&) = default;
};

struct StoredSession {
  SessionId id = SessionId::kNone;
  std::uint32_t owner_uid = 0;
  std::array<std::uint8_t, 16> token_key{};
  std::array<std::uint8_t, 16> token_hash{};
  ClientProcess process{};  // that had it last
};

// Part of Memory. Threads: any.
class SessionStore {
 public:
  virtual ~SessionStore() = default;

  // Remembers a session from now on. Errors: kNoSpace (all records are taken), kExists,
  // kInvalidArgument (no id).
  virtual Status OpenSession(const StoredSession& session) = 0;
  // Forgets it and its window; its sequences stay as they are. Error: kNotFound.
  virtual Status CloseSession(SessionId session) = 0;
  // Another process has it from now on. Error: kNotFound.
  virtual Status SetSessionProcess(SessionId session, const ClientProcess& process) = 0;
  virtual std::vector<StoredSession> StoredSessions() const = 0;
  // The largest id of a stored session or of a sequence's owner: new ones are beyond it.
  virtual SessionId LastSession() const = 0;

  // Remembers a request by a commit of its own: one that changes what is not in this memory, before
  // it does so and once more at its end. Nothing for a session that is not stored.
  enum class Stage : std::uint8_t { kBegun, kEnded };
  virtual Status Remember(const AppliedRequest& applied, Stage stage, std::uint32_t cells) = 0;
  // What an applied request was answered. Errors: kNotFound (it was not applied); kConflict (so
  // many were applied since that this is not known any more).
  virtual Result<AppliedReply> FindApplied(SessionId session, RequestId request) const = 0;
  // The largest request id of the session that anything remembers; 0: none.
  virtual RequestId LastRequest(SessionId session) const = 0;
  // Sequences that the request made and that are still there, by index.
  virtual std::vector<SequenceHandle> CreatedBy(SessionId session, RequestId request) const = 0;
};

}  // namespace kvd
