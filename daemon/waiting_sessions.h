// WaitingSessions: sessions whose client is not connected and may come back, each until its time is
// over.
//
// Owner: the server. io thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon/io_loop.h"
#include "daemon/session_tokens.h"
#include "shm/ids.h"
#include "shm/unique_fd.h"

namespace kvd {

class WaitingSessions {
 public:
  // `given_up` is called when a session's time is over, its client's process has ended, or it has to
  // make room.
  WaitingSessions(IoLoop& loop, std::function<void(const StoredSession&)> given_up);

  // Of the uid's sessions that wait at most `waiting_max` do: beyond that its oldest goes.
  // `process`: a pidfd of the client's; may be none.
  void Add(const StoredSession& session, std::chrono::milliseconds wait, std::size_t waiting_max,
           UniqueFd process = {});
  // The one of that token and uid, which then waits no more.
  std::optional<StoredSession> Take(const SessionToken& token, std::uint32_t uid);
  // Gives up the uid's oldest; false: it has none.
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
  std::map<std::uint64_t, Waiting> waiting_;  // by when it began to wait
};

}  // namespace kvd
