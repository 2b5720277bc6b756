// The simulation has three clients with two uids; each connection belongs to one of the clients.
// Request numbers are unique over all connections, so that an answer on a wrong connection is
// detected.
#include "tests/daemon/support/server_simulation.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/simulated_workers.h"

namespace kvd::test {
namespace {

using std::chrono::milliseconds;
using wire::Verb;

constexpr std::uint32_t kOwn = 1000;
constexpr std::uint32_t kOther = 1001;
struct Client {
  std::uint32_t uid;
  bool is_seen;  // the daemon knows the client's pid
};
constexpr std::array<Client, 3> kClients = {Client{kOwn, false}, {kOther, false}, {kOwn, true}};
constexpr std::size_t kConnectionsMax = 7;
// The memory has records for 16 sessions. The clients have at most 9 sessions, so no session is
// given up to make room for another session.
constexpr std::size_t kSessionsMax = 9;
constexpr std::size_t kSequencesMax = 5;  // for each session
constexpr milliseconds kWait = std::chrono::hours(1);
// A timer that is due within kSoon belongs to work in progress.
constexpr milliseconds kSoon{20};

std::unexpected<Error> Broken(std::string what) { return Fail(Code::kInternal, std::move(what)); }

template <class Id>
std::string Text(Id id) {
  return std::to_string(static_cast<std::uint64_t>(id));
}

std::vector<std::byte> GeneratePayload(std::size_t tokens, std::int32_t predict_max) {
  const std::vector<TokenId> prompt(tokens, FakeEngine::Letter('c'));
  wire::GenerateView view;
  view.params.predict_max = predict_max;
  view.params.room_wait_ms = -1;  // nothing would give room in the virtual time
  view.params.sampling = DefaultSamplingAt(0);
  view.params.seed = 1;
  view.params.token_count = static_cast<std::uint32_t>(tokens);
  view.tokens = prompt;
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  return payload;
}

std::vector<std::byte> Bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

// The daemon's io side with the loops of its threads. The parts are destroyed in the order of
// main.cc.
struct ServerSimulation::Daemon {
  Daemon(FakeEngine& engine, Shares& shares, SavedStates* states,
         const SimulatedLoop::Choose& choose)
      : io(choose),
        workers(choose),
        scheduler(engine, engine.config().vocab_size, {}),
        server({.loop = io,
                .workers = workers,
                .engine = engine,
                .scheduler = scheduler,
                .shares = shares,
                .saved_states = states},
               {.reconnect_wait = kWait, .restart_wait = kWait}) {}

  SimulatedLoop io;
  SimulatedWorkers workers;
  Scheduler scheduler;
  Server server;
};

ServerSimulation::ServerSimulation(std::uint64_t seed, const std::string& store_path)
    : random_(seed),
      engine_chances_(static_cast<int>(std::array<std::int64_t, 3>{2, 8, 40}[seed % 3])),
      engine_({.cells = 1024, .ubatch_tokens = 32, .has_state = seed % 4 == 0}),
      shares_({}, OwnerOf(kOwn), true) {
  auto states = SavedStates::Open(store_path, engine_);
  KVD_ASSERT(states.has_value());
  saved_states_ = std::move(*states);
  StartDaemon();
}

ServerSimulation::~ServerSimulation() = default;

void ServerSimulation::StartDaemon() {
  daemon_ =
      std::make_unique<Daemon>(engine_, shares_, saved_states_.get(), [this](std::size_t count) {
        return static_cast<std::size_t>(random_.In(0, static_cast<std::int64_t>(count) - 1));
      });
}

void ServerSimulation::StopDaemon(bool is_killed) {
  if (!is_killed) {
    daemon_->server.StopListening();
    daemon_->scheduler.Stop();
    daemon_->scheduler.Run();
    daemon_->workers.DropQueued();
    daemon_->server.CloseAll();
  }
  daemon_.reset();
}

bool ServerSimulation::StepAnyThread() {
  Daemon& daemon = *daemon_;
  if (random_.OneIn(engine_chances_) && daemon.scheduler.RunOnce()) return true;
  // The io thread runs first in two of three steps, because it has the most work.
  const bool workers_first = random_.OneIn(3);
  if (workers_first && daemon.workers.RunOne()) return true;
  if (daemon.io.RunOne() || daemon.workers.RunOne()) return true;
  return daemon.scheduler.RunOnce();
}

void ServerSimulation::Step(int steps) {
  for (int i = 0; i < steps; ++i) {
    if (random_.OneIn(4)) daemon_->io.Advance(milliseconds(random_.In(1, 2)));
    (void)StepAnyThread();
  }
}

Status ServerSimulation::Rest() {
  constexpr int kStepsMax = 20'000;
  for (int steps = 0; steps < kStepsMax; ++steps) {
    if (StepAnyThread()) continue;
    const std::size_t unanswered_before = last_request_;
    KVD_CHECK_OK(ReceiveAll());
    KVD_ASSERT(unanswered_before == last_request_);
    if (StepAnyThread()) continue;
    const auto next = daemon_->io.UntilNextTimer();
    if (!next || *next > kSoon) return CheckAtRest();
    daemon_->io.Advance(*next);
  }
  return Broken("no rest after " + std::to_string(kStepsMax) + " steps");
}

Status ServerSimulation::Run(int operations) {
  for (int operation = 0; operation < operations; ++operation) {
    Status status = Operate();
    if (status) Step(static_cast<int>(random_.In(0, 6)));
    if (status) status = ReceiveAll();
    if (!status)
      return Broken("operation " + std::to_string(operation) + ": " + status.error().message);
  }
  while (!connections_.empty()) Close(0, random_.OneIn(2));
  KVD_CHECK_OK(LetTimePass());
  const Server::Counts counts = daemon_->server.CountAll();
  if (counts.hellos + counts.pumps + counts.waiting_sessions > 0 || !counts.connections.empty()) {
    return Broken("a daemon without clients has hellos, pumps, sessions or counts them");
  }
  for (std::size_t resource = 0; resource < kResourceCount; ++resource) {
    if (!shares_.ListHeld(static_cast<Resource>(resource)).empty()) {
      return Broken("resource " + Text(resource) + " is held without clients");
    }
  }
  return {};
}

// ------------------------------------------------------------------------------------ operations

Status ServerSimulation::Operate() {
  const std::int64_t draw = random_.In(0, 99);
  if (draw < 48) {
    if (connections_.empty()) return {};
    const std::int64_t submissions = random_.In(1, 4);
    const auto chosen = random_.In(0, std::ssize(connections_) - 1);
    for (std::int64_t i = 0; i < submissions; ++i) {
      Submit(*connections_[static_cast<std::size_t>(chosen)]);
    }
    return {};
  }
  if (draw < 74) {
    Greet();
    return {};
  }
  if (draw < 86) {
    if (connections_.empty()) return {};
    Close(static_cast<std::size_t>(random_.In(0, std::ssize(connections_) - 1)), draw < 78);
    return {};
  }
  if (draw < 90) {
    // The simulation also checks completions that the daemon sent before it stopped.
    Status status = ReceiveAll();
    StopDaemon(/*is_killed=*/random_.OneIn(2));
    connections_.clear();
    StartDaemon();
    return status;
  }
  if (draw < 91) return LetTimePass();
  if (draw < 95) return Rest();
  daemon_->io.Advance(milliseconds(random_.In(1, 5)));
  return {};
}

void ServerSimulation::Connect(std::size_t client, const SessionToken& token,
                               std::size_t hello_bytes) {
  if (connections_.size() >= kConnectionsMax) Close(0, /*says_goodbye=*/false);
  int pair[2];
  KVD_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  wire::Hello hello{};
  hello.magic = wire::kHelloMagic;
  hello.version = wire::kProtocolVersion;
  hello.flags = (random_.OneIn(16) ? std::uint32_t{wire::kHelloMap} : 0u) |
                (random_.OneIn(2) ? std::uint32_t{wire::kHelloReturns} : 0u);
  hello.submission_entries = 8;
  hello.completion_entries = 16;
  hello.request_arena_bytes = hello.result_arena_bytes = wire::kArenaBytesMin;
  std::ranges::copy(token, hello.session_token);
  const std::uint32_t uid = kClients[client].uid;
  daemon_->server.Adopt(UniqueFd(pair[0]),
                        {.pid = kClients[client].is_seen ? ::getpid() : 0, .uid = uid, .gid = uid});
  connections_.push_back(std::make_unique<SimulatedConnection>(UniqueFd(pair[1]), uid, hello));
  connections_.back()->SendHello(hello_bytes);
}

// Sends a hello for a new session, or one or several hellos with the token of a current or former
// session, or a part of a hello.
void ServerSimulation::Greet() {
  const auto client = static_cast<std::size_t>(random_.In(0, std::ssize(kClients) - 1));
  const auto partial = std::ranges::find_if(
      connections_, [](const auto& connection) { return !connection->has_said_hello(); });
  if (partial != connections_.end() && random_.OneIn(3)) {
    return (*partial)->SendHello(static_cast<std::size_t>(random_.In(1, sizeof(wire::Hello))));
  }
  const auto hello_bytes = static_cast<std::size_t>(
      random_.OneIn(6) ? random_.In(0, sizeof(wire::Hello) - 1) : sizeof(wire::Hello));
  const bool makes_new = sessions_.empty() || random_.OneIn(4);
  if (makes_new) {
    const std::size_t may_become = connections_.size();
    if (engine_.memory().sessions().List().size() + may_become >
        kSessionsMax + kConnectionsMax - 1) {
      return;
    }
    return Connect(client, {}, hello_bytes);
  }
  auto chosen = sessions_.begin();
  std::advance(chosen, random_.In(0, std::ssize(sessions_) - 1));
  const bool is_thief = random_.OneIn(10);
  const auto attempts = random_.OneIn(3) ? random_.In(2, 3) : 1;
  for (std::int64_t i = 0; i < attempts; ++i) {
    std::size_t as = client;
    while ((kClients[as].uid == chosen->second.uid) == is_thief) as = (as + 1) % kClients.size();
    Connect(as, chosen->second.token, i == 0 ? hello_bytes : sizeof(wire::Hello));
    Step(static_cast<int>(random_.In(0, 4)));
  }
}

void ServerSimulation::Close(std::size_t connection, bool says_goodbye) {
  SimulatedConnection& closed = *connections_[connection];
  if (says_goodbye && closed.state() == SimulatedConnection::State::kWelcomed) {
    sessions_.at(static_cast<SessionId>(closed.welcome().session)).may_be_gone = true;
    closed.SayGoodbye();
  }
  connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(connection));
}

void ServerSimulation::Submit(SimulatedConnection& connection) {
  if (connection.state() != SimulatedConnection::State::kWelcomed) return;
  const auto session = sessions_.find(static_cast<SessionId>(connection.welcome().session));
  KVD_ASSERT(session != sessions_.end());
  SubmitOn(connection, session->second);
}

void ServerSimulation::SubmitOn(SimulatedConnection& connection, ModelSession& session) {
  wire::Submission submission{};
  submission.request = ++last_request_;
  std::vector<std::byte> payload;
  std::uint64_t expected = 0;
  ModelSequence* sequence = nullptr;
  if (!session.sequences.empty()) {
    auto chosen = session.sequences.begin();
    std::advance(chosen, random_.In(0, std::ssize(session.sequences) - 1));
    submission.sequence = static_cast<std::uint64_t>(chosen->first);
    sequence = &chosen->second;
  }
  const bool has_room = session.sequences.size() < kSequencesMax;
  const std::int64_t draw = sequence == nullptr ? random_.In(0, 39) : random_.In(0, 99);
  if (draw < 40) submission.sequence = 0;  // the verb has no sequence argument
  Verb verb = Verb::kPing;
  if (draw < 10) {
    payload = Bytes(Text(connection.welcome().session) + " " + Text(submission.request));
  } else if (draw < 20) {
    if (!has_room) return;
    verb = Verb::kCreate;
  } else if (draw < 24) {
    verb = Verb::kTokenize;  // the text is so long that a worker tokenizes it
    expected = static_cast<std::uint64_t>(random_.In(2100, 2400));
    payload = Bytes(std::string(expected, 'a'));
  } else if (draw < 27) {
    verb = Verb::kInfo;
  } else if (draw < 29) {
    verb = Verb::kSaved;
  } else if (draw < 30) {
    verb = Verb::kLoad;
    payload = Bytes("state");
  } else if (draw < 34) {
    verb = Verb::kList;
  } else if (draw < 40) {
    if (connection.in_flight().empty()) return;
    verb = Verb::kCancel;
    submission.argument = static_cast<std::int64_t>(connection.in_flight().rbegin()->first);
    cancelled_.insert(connection.in_flight().rbegin()->first);
  } else if (draw < 66) {
    verb = Verb::kGenerate;
    const auto tokens = static_cast<std::size_t>(random_.In(1, 12));
    const auto predicted = static_cast<std::int32_t>(random_.In(0, 12));
    payload = GeneratePayload(tokens, predicted);
    submission.p0 = -1;
    expected = tokens;
    sequence->cells_max +=
        static_cast<std::uint32_t>(tokens) + static_cast<std::uint32_t>(predicted);
  } else if (draw < 74) {
    if (!has_room) return;
    verb = Verb::kFork;
    submission.argument = 1;
    const bool is_part = random_.OneIn(2) && sequence->cells_min > 1;
    submission.p0 = is_part ? static_cast<std::int32_t>(random_.In(1, sequence->cells_min)) : -1;
  } else if (draw < 80) {
    verb = Verb::kRemoveRange;
    submission.p0 = static_cast<std::int32_t>(random_.In(0, sequence->cells_max));
    submission.p1 = -1;
    sequence->cells_min = 0;
    sequence->was_cut = true;
  } else if (draw < 88) {
    verb = Verb::kQuery;
  } else if (draw < 92) {
    verb = Verb::kReadText;
  } else if (draw < 94) {
    verb = Verb::kSave;
    payload = Bytes("state");
    submission.flags = wire::kFlagForce;
  } else {
    verb = draw < 97 ? Verb::kDrop : Verb::kRetain;
    sequence->may_be_gone = true;
  }
  submission.verb = static_cast<std::uint16_t>(verb);
  (void)connection.Submit(submission, payload, expected);
}

// Advances the time until the daemon gives up sessions without a connection and incomplete hellos.
Status ServerSimulation::LetTimePass() {
  KVD_CHECK_OK(Rest());
  daemon_->io.Advance(2 * kWait);
  for (auto& [id, session] : sessions_) {
    const bool is_here = std::ranges::any_of(connections_, [&](const auto& connection) {
      return connection->state() == SimulatedConnection::State::kWelcomed &&
             static_cast<SessionId>(connection->welcome().session) == id;
    });
    session.is_gone = session.is_gone || !is_here;
  }
  return Rest();
}

// ---------------------------------------------------------------------------------------- checks

Status ServerSimulation::ReceiveAll() {
  for (std::size_t i = 0; i < connections_.size();) {
    KVD_CHECK_OK(Receive(*connections_[i]));
    const auto state = connections_[i]->state();
    const bool is_over = state == SimulatedConnection::State::kRefused ||
                         state == SimulatedConnection::State::kHungUp;
    if (is_over) {
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return {};
}

Status ServerSimulation::Receive(SimulatedConnection& connection) {
  const bool was_greeting = connection.state() == SimulatedConnection::State::kGreeting;
  KVD_CHECK_OK(connection.Receive([&](const SimulatedConnection::Sent& sent,
                                      const wire::Completion& completion,
                                      std::span<const std::byte> output) {
    return CheckAnswer(static_cast<SessionId>(connection.welcome().session), sent, completion,
                       output);
  }));
  if (!was_greeting || connection.state() == SimulatedConnection::State::kGreeting) return {};
  return connection.state() == SimulatedConnection::State::kRefused ? CheckRefusal(connection)
                                                                    : CheckWelcome(connection);
}

SessionToken ServerSimulation::TokenOf(const SimulatedConnection& connection) const {
  SessionToken token;
  std::ranges::copy(connection.hello().session_token, token.begin());
  return token;
}

ServerSimulation::ModelSession* ServerSimulation::FindByToken(const SessionToken& token) {
  const auto found = std::ranges::find_if(
      sessions_, [&](const auto& entry) { return entry.second.token == token; });
  return found == sessions_.end() ? nullptr : &found->second;
}

Status ServerSimulation::CheckWelcome(const SimulatedConnection& connection) {
  const auto id = static_cast<SessionId>(connection.welcome().session);
  SessionToken token;
  std::ranges::copy(connection.welcome().session_token, token.begin());
  const auto found = sessions_.find(id);
  if (TokenOf(connection) == SessionToken{}) {
    // A restarted daemon may reuse the number of a session that has ended.
    if (found != sessions_.end() && !found->second.may_be_gone && !found->second.is_gone) {
      return Broken("session " + Text(id) + " is given to a new client");
    }
    if (token == SessionToken{}) return Broken("session " + Text(id) + " has no token");
    sessions_[id] = {.token = token, .uid = connection.uid(), .sequences = {}};
    return {};
  }
  if (found == sessions_.end() || found->second.token != TokenOf(connection) ||
      found->second.token != token || found->second.uid != connection.uid()) {
    return Broken("session " + Text(id) + " is given for another one's token");
  }
  if (found->second.is_gone) return Broken("session " + Text(id) + " is back, given up before");
  return {};
}

Status ServerSimulation::CheckRefusal(const SimulatedConnection& connection) {
  const Code code = connection.code();
  const bool is_other = connection.uid() != kOwn;
  if (code == Code::kNoSpace && is_other) return {};  // kOther has a quota of connections
  if (!connection.has_said_hello() && code == Code::kTimeout) return {};
  if (const SessionToken token = TokenOf(connection);
      token != SessionToken{} && connection.has_said_hello()) {
    const ModelSession* const session = FindByToken(token);
    const bool is_thief = session != nullptr && session->uid != connection.uid();
    const bool may_be_gone = session == nullptr || session->may_be_gone || session->is_gone;
    if (code == Code::kSessionLost && (is_thief || may_be_gone)) return {};
    // A later hello with the same session token replaces the connection of an earlier hello.
    if (code == Code::kConflict && !is_thief) return {};
  }
  return Broken("a hello was refused: " + std::string(CodeName(code)) + " " +
                connection.welcome().message);
}

Status ServerSimulation::CheckAnswer(SessionId session, const SimulatedConnection::Sent& sent,
                                     const wire::Completion& completion,
                                     std::span<const std::byte> output) {
  const auto verb = static_cast<Verb>(sent.submission.verb);
  const bool is_ok = completion.code == 0;
  ModelSession& model = sessions_.at(session);
  const auto found = model.sequences.find(static_cast<SequenceHandle>(sent.submission.sequence));
  ModelSequence* const sequence = found == model.sequences.end() ? nullptr : &found->second;
  switch (verb) {
    case Verb::kPing: {
      const std::string text(reinterpret_cast<const char*>(output.data()), output.size());
      if (!is_ok || text != Text(session) + " " + Text(sent.submission.request)) {
        return Broken("ping of session " + Text(session) + " is answered " + text);
      }
      return {};
    }
    case Verb::kTokenize:
      if (static_cast<Code>(completion.code) == Code::kCancelled &&
          cancelled_.contains(sent.submission.request)) {
        return {};
      }
      if (!is_ok || completion.value0 != static_cast<std::int64_t>(sent.expected)) {
        return Broken("tokenize: " + Text(completion.value0) + " tokens of " + Text(sent.expected));
      }
      return {};
    case Verb::kCreate:
      if (is_ok) model.sequences[static_cast<SequenceHandle>(completion.sequence)] = {};
      return {};
    case Verb::kFork:
      if (is_ok) {
        const auto cells = static_cast<std::uint32_t>(completion.value1);
        model.sequences[static_cast<SequenceHandle>(completion.sequence)] = {.cells_min = cells,
                                                                             .cells_max = cells};
      }
      return {};
    case Verb::kGenerate:
      if (is_ok && sequence != nullptr && !sequence->was_cut) {
        sequence->cells_min += static_cast<std::uint32_t>(sent.expected);
      }
      return {};
    case Verb::kDrop:
    case Verb::kRetain:
      if (is_ok) model.sequences.erase(static_cast<SequenceHandle>(sent.submission.sequence));
      return {};
    case Verb::kQuery:
      if (!is_ok && sequence != nullptr && !sequence->may_be_gone) {
        return Broken("query of sequence " + Text(sent.submission.sequence) + " is answered " +
                      std::string(CodeName(static_cast<Code>(completion.code))));
      }
      return {};
    default: return {};
  }
}

Status ServerSimulation::CheckAtRest() {
  // A goodbye ends a session only if its connection had the session at that time. The stored
  // sessions show which sessions have ended.
  std::vector<SessionId> stored;
  for (const SessionEntry& session : engine_.memory().sessions().List())
    stored.push_back(session.id);
  for (auto& [id, session] : sessions_) {
    const bool is_stored = std::ranges::find(stored, id) != stored.end();
    if (!session.may_be_gone && !session.is_gone && !is_stored) {
      return Broken("session " + Text(id) + " is lost");
    }
    if (session.is_gone && is_stored) return Broken("session " + Text(id) + " was not given up");
    session.is_gone = session.is_gone || !is_stored;
    session.may_be_gone = false;
    if (session.is_gone) session.sequences.clear();
  }
  for (const SequenceInfo& info : engine_.memory().sequences().List()) {
    const bool is_private =
        (info.flags & (layout::kSequencePublished | layout::kSequenceRetained)) == 0;
    if (is_private && std::ranges::find(stored, info.owner.session) == stored.end()) {
      return Broken("sequence " + Text(info.handle) + " of session " + Text(info.owner.session) +
                    " is left of it");
    }
  }
  KVD_CHECK_OK(CheckConnections());
  return CheckSequences();
}

Status ServerSimulation::CheckConnections() {
  std::size_t hellos = 0;
  std::map<SessionId, int> connected;
  std::map<OwnerId, std::uint64_t> by_owner;
  for (const auto& connection : connections_) {
    ++by_owner[OwnerOf(connection->uid())];
    if (connection->state() == SimulatedConnection::State::kGreeting) {
      if (connection->has_said_hello()) return Broken("a hello has no answer");
      ++hellos;
      continue;
    }
    const auto session = static_cast<SessionId>(connection->welcome().session);
    if (++connected[session] > 1)
      return Broken("session " + Text(session) + " has two connections");
    if (!connection->in_flight().empty()) {
      return Broken("request " + Text(connection->in_flight().begin()->first) + " has no answer");
    }
  }
  const Server::Counts counts = daemon_->server.CountAll();
  if (counts.hellos != hellos || counts.pumps != connected.size()) {
    return Broken("the daemon has " + Text(counts.hellos) + " hellos and " + Text(counts.pumps) +
                  " pumps, its clients " + Text(hellos) + " and " + Text(connected.size()));
  }
  if (counts.connections != by_owner) return Broken("connections by owner are not counted rightly");
  return {};
}

Status ServerSimulation::CheckSequences() {
  for (auto& [id, session] : sessions_) {
    for (auto entry = session.sequences.begin(); entry != session.sequences.end();) {
      const auto info = engine_.memory().sequences().Query(entry->first);
      const bool is_there =
          info && info->owner.session == id && (info->flags & layout::kSequenceRetained) == 0;
      ModelSequence& sequence = entry->second;
      if (!is_there && !sequence.may_be_gone) {
        return Broken("sequence " + Text(entry->first) + " of session " + Text(id) + " is lost");
      }
      if (!is_there) {
        entry = session.sequences.erase(entry);
        continue;
      }
      if (info->cell_count < sequence.cells_min || info->cell_count > sequence.cells_max) {
        return Broken("sequence " + Text(entry->first) + " has " + Text(info->cell_count) +
                      " cells, not " + Text(sequence.cells_min) + " to " +
                      Text(sequence.cells_max));
      }
      sequence = {.cells_min = info->cell_count, .cells_max = info->cell_count};
      ++entry;
    }
  }
  return {};
}

}  // namespace kvd::test
