// The part of Server for sessions without a connection: those that wait for their client, and those
// that an earlier daemon has stored.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "daemon/server.h"
#include "daemon/sessions/client_process.h"

namespace kvd {

void Server::AwaitClient(const StoredSession& session, pid_t pid) {
  const std::size_t waiting_max =
      std::max<std::size_t>(1, parts_.engine.options().session_capacity / 8);
  if (session.outlive_seconds > 0) {
    waiting_.Add(session, OutliveOf(session), waiting_max, {}, ShareOfOutliving(session.owner));
    return;
  }
  // A pidfd of the client's process; empty if the process is not visible to the daemon.
  UniqueFd process;
  if (pid > 0) {
    process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)));
    if (!process && errno == ESRCH) return service_.SessionClosed(session.id);
  }
  waiting_.Add(session, options_.reconnect_wait, waiting_max, std::move(process));
}

std::chrono::milliseconds Server::OutliveOf(const StoredSession& session) const {
  return std::max<std::chrono::milliseconds>(std::chrono::seconds(session.outlive_seconds),
                                             options_.reconnect_wait);
}

Share Server::ShareOfOutliving(OwnerId owner) {
  Share share(parts_.shares.AccountOf(owner), Resource::kOutlivingSessions);
  // The session was counted when it was opened. If a limit was lowered since then, it is not
  // counted now.
  (void)share.Grow(1);
  return share;
}

void Server::TakeStoredSessions() {
  Memory& memory = parts_.engine.memory();
  last_session_ = static_cast<std::uint64_t>(memory.sessions().Last());
  std::set<SessionId> known;
  for (const SessionEntry& entry : memory.sessions().List()) {
    const StoredSession session = SessionOf(entry);
    known.insert(session.id);
    if (session.outlive_seconds > 0) {
      waiting_.Add(session,
                   std::max<std::chrono::milliseconds>(OutliveOf(session), options_.restart_wait),
                   ~std::size_t{0}, {}, ShareOfOutliving(session.owner));
      continue;
    }
    FoundProcess client = FindProcess(session.process);
    if (client.is_gone) {
      service_.SessionClosed(session.id);
    } else {
      waiting_.Add(session, options_.restart_wait, ~std::size_t{0}, std::move(client.pidfd));
    }
  }
  std::set<SessionId> orphaned;
  for (const SequenceInfo& sequence : memory.sequences().List()) {
    const bool is_private =
        (sequence.flags & (layout::kSequencePublished | layout::kSequenceRetained)) == 0;
    if (is_private && !known.contains(sequence.owner.session)) {
      orphaned.insert(sequence.owner.session);
    }
  }
  for (const SessionId session : orphaned) service_.SessionClosed(session);
}

}  // namespace kvd
