// ServerSimulation: a Server over socketpairs, run in one thread with everything that it depends
// on: its event loop, its workers, the engine's thread and its clients. A seed decides the order of
// events; time is virtual.
//
// The simulation checks the following after every operation and whenever all parties are idle:
//   1. Each hello gets exactly one answer, which must be allowed for its sender.
//   2. A session has at most one connection, and the daemon has only its clients' connections.
//   3. A session's private sequences keep their cells until the session is given up, also across
//      takeovers and restarts; after the session is given up, no private sequence of it is left.
//   4. Each request gets one final answer, on its own connection, and a ping gets its own payload.
//   5. The server counts connections by uid; at the end all counts are zero.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/server.h"
#include "daemon/sessions/resumption.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/simulated_connection.h"
#include "tests/daemon/support/simulated_loop.h"
#include "tests/engine/memory/model_run.h"

namespace kvd::test {

class ServerSimulation {
 public:
  // `store_path`: a folder for saved states that only this simulation uses.
  ServerSimulation(std::uint64_t seed, const std::string& store_path);
  ~ServerSimulation();

  // Runs `operations` operations and then lets all parties become idle. The error names the check
  // that failed and the operation before it.
  Status Run(int operations);

 private:
  struct ModelSequence {
    std::uint32_t cells_min = 0;
    std::uint32_t cells_max = 0;
    bool may_be_gone = false;  // a drop or retain request for it was sent
    bool was_cut = false;      // cells were removed: cells_min stays 0 until the next Rest()
  };
  struct ModelSession {
    SessionToken token{};
    std::uint32_t uid = 0;
    bool may_be_gone = false;  // the client has said goodbye on one of the session's connections
    bool is_gone = false;
    std::map<SequenceHandle, ModelSequence> sequences;  // sequences that its client knows
  };
  struct Daemon;
  using Connections = std::vector<std::unique_ptr<SimulatedConnection>>;

  // ---- the daemon and its threads
  void StartDaemon();
  void StopDaemon(bool is_killed);
  // Lets one thread execute one call. False: no thread has a call to execute.
  bool StepAnyThread();
  void Step(int steps);
  // Runs all threads until they only wait for time to pass, and then checks every invariant.
  Status Rest();

  // ---- operations
  Status Operate();
  void Connect(std::size_t client, const SessionToken& token, std::size_t hello_bytes);
  void Greet();
  void Close(std::size_t connection, bool says_goodbye);
  void Submit(SimulatedConnection& connection);
  void SubmitOn(SimulatedConnection& connection, ModelSession& session);
  Status LetTimePass();

  // ---- checks
  Status ReceiveAll();
  Status Receive(SimulatedConnection& connection);
  Status CheckWelcome(const SimulatedConnection& connection);
  Status CheckRefusal(const SimulatedConnection& connection);
  Status CheckAnswer(SessionId session, const SimulatedConnection::Sent& sent,
                     const wire::Completion& completion, std::span<const std::byte> output);
  Status CheckAtRest();
  Status CheckConnections();
  Status CheckSequences();
  SessionToken TokenOf(const SimulatedConnection& connection) const;
  ModelSession* FindByToken(const SessionToken& token);

  memory_model::Random random_;
  // The engine's thread is tried first in one of `engine_chances_` steps. If `engine_chances_` is
  // large, requests stay in flight for long.
  const int engine_chances_;
  FakeEngine engine_;
  Shares shares_;
  std::unique_ptr<SavedStates> saved_states_;
  std::unique_ptr<Daemon> daemon_;
  Connections connections_;
  std::map<SessionId, ModelSession> sessions_;
  std::set<std::uint64_t> cancelled_;  // requests for which a kCancel was sent
  std::uint64_t last_request_ = 0;     // shared by all clients: no number is used twice
};

}  // namespace kvd::test
