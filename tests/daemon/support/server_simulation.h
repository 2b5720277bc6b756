// ServerSimulation: a Server over socketpairs with everything around it in one thread: its event
// loop, the threads that work for it, the engine's thread and clients, in an order that a seed
// decides and with virtual time.
//
// What it checks, after every operation and wherever everything has come to rest:
//   1. Each hello gets exactly one answer, and one that its sender may get.
//   2. A session has one connection at most, and the daemon has no others than its clients have.
//   3. A session's private sequences are there with their cells until it is given up, through
//      takeovers and other daemons over the same memory; then none is left.
//   4. Each request gets one final answer, on its own connection, and a ping its own payload.
//   5. Connections are counted by uid, and none at the end.
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
#include "daemon/session_tokens.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/simulated_connection.h"
#include "tests/daemon/support/simulated_loop.h"
#include "tests/engine/memory/model_run.h"

namespace kvd::test {

class ServerSimulation {
 public:
  // `store_path`: a folder for saved states, used by nothing else meanwhile.
  ServerSimulation(std::uint64_t seed, const std::string& store_path);
  ~ServerSimulation();

  // That many operations and a rest at the end. Error: what does not hold, and after which operation.
  Status Run(int operations);

 private:
  struct ModelSequence {
    std::uint32_t cells_min = 0;
    std::uint32_t cells_max = 0;
    bool may_be_gone = false;  // a request to let it go has no answer
    bool was_cut = false;      // cells_min counts from the next rest on
  };
  struct ModelSession {
    SessionToken token{};
    std::uint32_t uid = 0;
    bool may_be_gone = false;  // its client has said goodbye on some connection
    bool is_gone = false;
    std::map<SequenceHandle, ModelSequence> sequences;  // those that its client knows of
  };
  struct Daemon;
  using Connections = std::vector<std::unique_ptr<SimulatedConnection>>;

  // ---- the surroundings
  void StartDaemon();
  void StopDaemon(bool is_killed);
  // Makes one thread do a piece of work. False: none has any.
  bool StepAnyThread();
  void Step(int steps);
  // Until nothing is left to do but wait for time to pass.
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
  const int engine_chances_;  // one in so many steps is the engine's: few let requests last long
  FakeEngine engine_;
  Shares shares_;
  std::unique_ptr<SavedStates> saved_states_;
  std::unique_ptr<Daemon> daemon_;
  Connections connections_;
  std::map<SessionId, ModelSession> sessions_;
  std::set<std::uint64_t> cancelled_;  // requests that a kCancel was sent for
  std::uint64_t last_request_ = 0;     // of all clients: no number is used twice
};

}  // namespace kvd::test
