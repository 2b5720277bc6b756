// The tokens by which clients take their sessions up again: 128 random bits each, known to the
// client alone. What is stored is a hash under a key of the token's own.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/session_note.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

using SessionToken = std::array<std::uint8_t, 16>;

// A fresh token, and what is stored of the session that it belongs to. Errors: kIo (no random
// bytes).
struct IssuedToken {
  SessionToken token{};
  StoredSession session;
};
Result<IssuedToken> IssueToken(SessionId session, std::uint32_t uid);

// Whether the token is that session's, in a time that does not depend on how much of it is.
bool IsTokenOf(const SessionToken& token, const StoredSession& session);

// The seed of a request that leaves it to the daemon: the same one each time it is asked for, also
// by another daemon over the same `meta`. Never 0.
std::uint64_t SeedOf(std::uint64_t session_seed, RequestId request);
// What SeedOf wants to know of a session.
std::uint64_t SessionSeed(const StoredSession& session);

}  // namespace kvd
