// Server: the io side of the daemon put together: listener, hellos, conversations, service.
//
// Owner: main. Everything but the constructor's caller and Wake-ups posted by other threads happens
// on the io thread. The scheduler's thread and the workers are main's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "daemon/conversation.h"
#include "daemon/io_loop.h"
#include "daemon/limited_log.h"
#include "daemon/listener.h"
#include "daemon/map_publisher.h"
#include "daemon/pending_hello.h"
#include "daemon/scheduler.h"
#include "daemon/service.h"
#include "daemon/shares.h"
#include "daemon/waiting_sessions.h"
#include "daemon/workers.h"
#include "engine/engine.h"

namespace kvd {

struct ServerOptions {
  std::chrono::milliseconds hello_deadline{5000};
  // How long the sequences of a client wait for it: after its connection was lost, and after this
  // daemon found them in `meta` at its start.
  std::chrono::milliseconds reconnect_wait{2000};
  std::chrono::milliseconds restart_wait{600'000};
  PrefixOptions prefixes{};
};

class Server {
 public:
  // All outlive the server.
  struct Parts {
    IoLoop& loop;
    Workers& workers;
    Engine& engine;
    Scheduler& scheduler;
    Shares& shares;
    SavedStates* saved_states = nullptr;  // null: nothing can be saved
    PromptCache* prompt_cache = nullptr;  // null: there is none
  };

  Server(const Parts& parts, const ServerOptions& options);
  // Drops the requests that the scheduler still has: they belong to the sessions that end here.
  // REQUIRES: Scheduler::Run does not run, and the workers have been stopped: their work uses the
  // service.
  ~Server();

  // Serves the listener's connections from now on.
  void Start(std::unique_ptr<Listener> listener);
  // Serves one connection that was made elsewhere (tests).
  void Adopt(UniqueFd socket, const PeerCredentials& peer);
  // Accepts no more and removes the socket.
  void StopListening();
  // Hangs up on everybody; what is committed of their sessions stays, for another daemon.
  void CloseAll();

  struct Counts {
    std::size_t hellos = 0;         // connections without a session
    std::size_t conversations = 0;  // connections with one
    std::size_t waiting_sessions = 0;
    std::map<OwnerId, std::uint64_t> connections;  // as they count for their owners
  };
  Counts CountAll() const;

 private:
  // Whose session a hello opens.
  struct Opening {
    SessionToken token{};  // zero: it cannot be taken up again
    StoredSession session;
    bool is_new = true;
  };
  // Numbers are not used again: a late callback of a hello that has ended finds none, and never
  // another one.
  enum class HelloNumber : std::uint64_t {};
  struct Hello {
    std::unique_ptr<PendingHello> connection;
    SessionShares shares;
    // Once it is introduced. It then waits until the requests of its session's last connection have
    // ended.
    wire::CheckedHello asked{};
    std::optional<Opening> opening;
    std::unique_ptr<IoLoop::Handle> retry;
  };

  void Accept(UniqueFd socket, const PeerCredentials& peer, const Status& admitted);
  void Introduce(HelloNumber number, const wire::CheckedHello& asked);
  // REQUIRES: an introduced hello.
  Status Open(Hello& hello);
  // A new session; stored, if there is room for its record.
  Result<Opening> NewSession(std::uint32_t uid, pid_t pid);
  // The session of a token, out of those that wait, from a connection that has not been found dead
  // yet, or from an earlier hello, which is refused then. Error: kSessionLost.
  Result<Opening> TakeUp(const SessionToken& token, std::uint32_t uid);
  // Opens its session once no request of the session's earlier connection is left.
  void Admit(HelloNumber number);
  // At the start: what `meta` knows of.
  void TakeStoredSessions();
  // The client of a session that was lost may come back.
  // `pid`: of the process whose connection it was; 0: not seen from here.
  void AwaitClient(const StoredSession& session, pid_t pid);
  void Refuse(int socket, const PeerCredentials& peer, const Error& why);
  void RefuseHello(HelloNumber number, const Error& why);
  // Takes it and its timer away at once.
  void EndHello(HelloNumber number);
  // The conversation, out of its map: to be destroyed where it is not in one of its own calls.
  std::shared_ptr<Conversation> EndSession(SessionId session, const Error& why, bool is_lost);
  void WantPump(SessionId session);  // any thread
  // What the map shows of the uid's sessions, and their number.
  void DescribeSessions(std::uint32_t uid, std::vector<layout::MapSession>* sessions) const;

  const Parts parts_;
  const ServerOptions options_;
  LimitedLog limited_log_;
  Service service_;
  std::unique_ptr<Listener> listener_;
  std::uint64_t last_session_ = 0;
  bool is_closing_ = false;
  std::uint64_t last_hello_ = 0;
  std::map<HelloNumber, Hello> hellos_;
  WaitingSessions waiting_;
  std::unordered_map<SessionId, std::unique_ptr<Conversation>> conversations_;
  MapPublisher maps_;
};

}  // namespace kvd
