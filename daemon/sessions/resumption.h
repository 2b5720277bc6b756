// Sessions that outlive a connection or a daemon: the note that `meta` stores, the token with which
// a client resumes its session, and the sessions that wait for their clients.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "daemon/process/io_loop.h"
#include "daemon/sessions/client_process.h"
#include "daemon/sessions/shares.h"
#include "engine/memory/sessions.h"

namespace kvd {

// Converts the daemon's data about a session to the opaque note that the memory stores in the
// session's record. resumption.h and resumption.cc define the form of the note. A change of the
// form of the note requires a new layout::kLayoutVersion.

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

// Session tokens, with which clients resume their sessions: 128 random bits each, known only to the
// client. For each session token, the daemon stores a hash of the token under a key that is drawn
// for this token.

using SessionToken = std::array<std::uint8_t, 16>;

// A new token, and the record of the token's session that is stored in `meta`. Errors: kIo (no
// random bytes).
struct IssuedToken {
  SessionToken token{};
  StoredSession session;
};
Result<IssuedToken> IssueToken(SessionId session, OwnerId owner);

// Returns whether the token belongs to the session. The time of IsTokenOf does not depend on the
// number of equal bytes.
bool IsTokenOf(const SessionToken& token, const StoredSession& session);

// Returns the sampler's seed for a generate request that gives no seed. The seed that SeedOf
// returns depends only on the arguments, so another daemon that attaches to the same `meta`
// computes the same seed. SeedOf never returns 0.
std::uint64_t SeedOf(std::uint64_t session_seed, RequestId request);
// Returns the argument `session_seed` of SeedOf for a session.
std::uint64_t SessionSeed(const StoredSession& session);

// WaitingSessions: sessions whose client is not connected and may reconnect; each session is kept
// until its deadline.
//
// Owner: the server. Only the io thread uses a WaitingSessions.
class WaitingSessions {
 public:
  // `given_up` is called when a session's deadline passes, its client's process ends, or the
  // session is removed because its owner has too many waiting sessions.
  WaitingSessions(IoLoop& loop, std::function<void(const StoredSession&)> given_up);

  // Adds a session. At most `waiting_max` sessions of an owner wait: if there are more, the owner's
  // oldest waiting session is given up. `process`: a pidfd of the client; may be empty.
  // `outliving`: the share that counts the session while it waits; may be empty.
  void Add(const StoredSession& session, std::chrono::milliseconds wait, std::size_t waiting_max,
           UniqueFd process = {}, Share outliving = {});
  // Removes and returns the waiting session of this token and owner; returns nullopt if no such
  // session waits.
  std::optional<StoredSession> Take(const SessionToken& token, OwnerId owner);
  // Gives up the owner's oldest waiting session; returns false if the owner has none.
  bool GiveUpOldest(OwnerId owner);
  std::size_t count() const { return waiting_.size(); }

 private:
  struct Waiting {
    StoredSession session;
    UniqueFd process;
    Share outliving;
    std::unique_ptr<IoLoop::Handle> timer;
    std::unique_ptr<IoLoop::Handle> process_end;
  };
  void GiveUp(std::uint64_t number);

  IoLoop& loop_;
  const std::function<void(const StoredSession&)> given_up_;
  std::uint64_t last_number_ = 0;
  // The waiting sessions; the key is a number that grows with each call of Add.
  std::map<std::uint64_t, Waiting> waiting_;
};

}  // namespace kvd
