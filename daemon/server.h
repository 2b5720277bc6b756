// Server: owns the objects of the io thread: listener, hellos, pumps, service.
//
// Owner: main. The io thread makes all calls and callbacks, except the construction; other threads
// post calls to the loop. Main owns the scheduler's thread and the workers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "daemon/map_publisher.h"
#include "daemon/process/io_loop.h"
#include "daemon/process/listener.h"
#include "daemon/process/log.h"
#include "daemon/process/weight_reading.h"
#include "daemon/process/workers.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/session_pump.h"
#include "daemon/sessions/expiries.h"
#include "daemon/sessions/pending_hello.h"
#include "daemon/sessions/resumption.h"
#include "daemon/sessions/shares.h"
#include "daemon/verbs/service.h"
#include "engine/engine.h"

namespace kvd {

struct ServerOptions {
  std::chrono::milliseconds hello_deadline{5000};
  // The times for which the sequences of a client are kept while the client may reconnect:
  // reconnect_wait counts from the loss of the connection, restart_wait from the start of a daemon
  // that found the session in `meta`.
  std::chrono::milliseconds reconnect_wait{2000};
  std::chrono::milliseconds restart_wait{600'000};
  PrefixPolicy prefixes{};
};

class Server {
 public:
  // All objects referred to by Parts outlive the server.
  struct Parts {
    IoLoop& loop;
    Workers& workers;
    Engine& engine;
    Scheduler& scheduler;
    Shares& shares;
    SavedStates* saved_states = nullptr;  // the files of saved states; null: states cannot be saved
    // The prompt cache on disk; null: the daemon has no prompt cache.
    PromptCache* prompt_cache = nullptr;
    GrammarWorker* grammars = nullptr;      // null: generations cannot have grammars
    const IdleTuning* tuning = nullptr;     // null: no choices are measured
    const WeightThread* weights = nullptr;  // null: the weights are read when they are first used
  };

  Server(const Parts& parts, const ServerOptions& options);
  // Drops the requests that are still in the scheduler, since their sessions end with the server.
  // REQUIRES: Scheduler::Run is not running, and the workers are stopped, since their work uses the
  // service.
  ~Server();

  // Begins to serve the listener's connections.
  void Start(std::unique_ptr<Listener> listener);
  // For tests: serves a connection that the listener has not accepted.
  void Adopt(UniqueFd socket, const PeerCredentials& peer);
  // Stops accepting connections and removes the socket file.
  void StopListening();
  // Closes all connections. The committed tokens of the closed sessions stay in `meta` for the next
  // daemon.
  void CloseAll();

  struct Counts {
    std::size_t hellos = 0;  // number of connections that have no session yet
    std::size_t pumps = 0;   // number of connections that have a session
    std::size_t waiting_sessions = 0;
    std::map<OwnerId, std::uint64_t> connections;  // number of connections counted for each owner
  };
  Counts CountAll() const;

 private:
  // The session that a hello opens.
  struct Opening {
    // Token with which the client can resume the session; all zero: the session cannot be resumed.
    SessionToken token{};
    StoredSession session;
    bool is_new = true;
  };
  // Numbers of hellos are never reused, so a late callback of an ended hello finds no hello.
  enum class HelloNumber : std::uint64_t {};
  struct Hello {
    std::unique_ptr<PendingHello> connection;
    SessionShares shares;
    // `asked` and `opening` are set when the hello is introduced (Introduce). A hello that is
    // introduced waits until the requests of its session's previous connection have ended.
    wire::CheckedHello asked{};
    std::optional<Opening> opening;
    std::unique_ptr<IoLoop::Handle> retry;
  };

  void Accept(UniqueFd socket, const PeerCredentials& peer, const Status& admitted);
  void Introduce(HelloNumber number, const wire::CheckedHello& asked);
  // Counts the hello for a tenant of the uid, and its connection for both; kTenantZero: does
  // nothing. Errors: kPermission, kConflict (Shares::AdmitTenant), kNoSpace (the tenant's
  // connections).
  Status EnterTenant(Hello& hello, std::uint32_t uid, const TenantId& tenant);
  // Error: kNoSpace (the owner's sessions may outlive their processes for a shorter time only).
  Status CheckOutlive(const Hello& hello, std::uint32_t outlive_seconds) const;
  // The time for which a session that outlives its process waits for another process.
  std::chrono::milliseconds OutliveOf(const StoredSession& session) const;
  // The share of a waiting session that outlives its process.
  Share ShareOfOutliving(OwnerId owner);
  // Opens the hello's session. REQUIRES: the hello is introduced.
  Status Open(Hello& hello);
  // Creates a new session. The session can be resumed if there is room to store its record.
  Result<Opening> NewSession(OwnerId owner, pid_t pid);
  // Finds the session of a token: among the waiting sessions, on a connection whose loss is not
  // detected yet, or in an earlier hello, which is then refused. Error: kSessionLost.
  Result<Opening> TakeUp(const SessionToken& token, OwnerId owner);
  // Opens the hello's session if no request of the session's previous connection is left, else
  // tries again later.
  void Admit(HelloNumber number);
  // At the daemon's start: adds the sessions stored in `meta` to waiting_.
  void TakeStoredSessions();
  // Adds a session whose connection was lost to waiting_. `pid`: the client's process; 0: the
  // process is not visible to the daemon.
  void AwaitClient(const StoredSession& session, pid_t pid);
  void Refuse(int socket, const PeerCredentials& peer, const Error& why);
  void RefuseHello(HelloNumber number, const Error& why);
  // Removes the hello and its timers.
  void EndHello(HelloNumber number);
  // Removes the pump from its map and returns it. The caller destroys the pump
  // outside of the pump's own calls.
  std::shared_ptr<SessionPump> EndSession(SessionId session, const Error& why, bool is_lost);
  void WantPump(SessionId session);  // may be called from any thread
  // Appends the live map's entries for the owner's sessions.
  void DescribeSessions(OwnerId owner, std::vector<layout::MapSession>* sessions) const;

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
  std::unordered_map<SessionId, std::unique_ptr<SessionPump>> pumps_;
  MapPublisher maps_;
  Expiries expiries_;
};

}  // namespace kvd
