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

namespace kvd {

class WaitingSessions {
 public:
  // `given_up` is called when a session's deadline passes, its client's process ends, or the
  // session is removed because its uid has too many waiting sessions.
  WaitingSessions(IoLoop& loop, std::function<void(const StoredSession&)> given_up);

  // Adds a session. At most `waiting_max` sessions of a uid wait: if there are more, the uid's
  // oldest waiting session is given up. `process`: a pidfd of the client; may be empty.
  void Add(const StoredSession& session, std::chrono::milliseconds wait, std::size_t waiting_max,
           UniqueFd process = {});
  // Removes and returns the waiting session of this token and uid; returns nullopt if no such
  // session waits.
  std::optional<StoredSession> Take(const SessionToken& token, std::uint32_t uid);
  // Gives up the uid's oldest waiting session; returns false if the uid has no waiting session.
  bool GiveUpOldest(std::uint32_t uid);
  std::size_t count() const { return waiting_.size(); }

 private:
  struct Waiting {
    StoredSession session;
    UniqueFd process;
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
