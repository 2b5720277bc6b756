// WaitingSessions: sessions whose client is not connected and may reconnect; each session is kept
// until its deadline.
//
// Owner: the server. Only the io thread uses a WaitingSessions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "daemon/io_loop.h"
#include "daemon/session_tokens.h"
#include "daemon/shares.h"

namespace kvd {

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
