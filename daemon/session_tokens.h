// Session tokens, with which clients resume their sessions: 128 random bits each, known only to the
// client. For each session token, the daemon stores a hash of the token under a key that is drawn
// for this token.
#pragma once

#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/session_note.h"

namespace kvd {

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

}  // namespace kvd
