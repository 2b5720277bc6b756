// A hello or a pump may end inside its own callback. A hello or pump that ends is
// removed from its map at once, together with its timers, and is destroyed later by a posted call.
#include "daemon/server.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/process/log.h"
#include "daemon/sessions/client_process.h"
#include "engine/model/model_config.h"
#include "shm/peer_socket.h"

namespace kvd {
namespace {

std::string PeerText(const PeerCredentials& peer) {
  return Concat("uid=", peer.uid, " pid=", peer.pid);
}

std::string SessionText(SessionId session) {
  return Concat("session=", static_cast<std::uint64_t>(session));
}

std::string ErrorText(const Error& error) {
  return std::string(CodeName(error.code)) + " " + Quoted(error.message);
}

}  // namespace

Server::Server(const Parts& parts, const ServerOptions& options)
    : parts_(parts),
      options_(options),
      limited_log_(parts.loop),
      service_(parts.engine, parts.scheduler, parts.shares,
               {.pid_of_session = [this](SessionId session) -> std::uint32_t {
                  const auto found = pumps_.find(session);
                  if (found == pumps_.end()) return 0;
                  return static_cast<std::uint32_t>(found->second->session()->identity().peer.pid);
                },
                .session_count = [this] { return static_cast<std::uint32_t>(pumps_.size()); },
                .expiry_set = [this] { expiries_.Arm(); },
                .saved_states = parts.saved_states,
                .prompt_cache = parts.prompt_cache,
                .grammars = parts.grammars,
                .tuning = parts.tuning,
                .weights = parts.weights},
               options.prefixes),
      waiting_(parts.loop,
               [this](const StoredSession& session) {
                 limited_log_.Log(LogLevel::kInfo, "given_up", SessionText(session.id));
                 service_.SessionClosed(session.id);
               }),
      maps_(parts.loop, parts.engine.memory(),
            {.counters =
                 [this] {
                   const EngineCounters engine = parts_.engine.counters();
                   return MapCounters{.tokens_computed = engine.tokens_computed,
                                      .tokens_sampled = parts_.scheduler.tokens_sampled(),
                                      .steps = engine.steps,
                                      .sessions = static_cast<std::uint32_t>(pumps_.size())};
                 },
             .sessions =
                 [this](OwnerId owner, std::vector<layout::MapSession>* sessions) {
                   DescribeSessions(owner, sessions);
                 },
             .uid_of = [this](OwnerId owner) { return parts_.shares.UidOf(owner); }}),
      expiries_(parts.loop, parts.engine.memory(),
                [this](SequenceHandle sequence) { parts_.scheduler.CancelSequence(sequence); }) {
  TakeStoredSessions();
}

Server::~Server() { parts_.scheduler.DropRequests(); }

void Server::Start(std::unique_ptr<Listener> listener) {
  listener_ = std::move(listener);
  listener_->Start(parts_.loop,
                   [this](UniqueFd socket, const PeerCredentials& peer, const Status& admitted) {
                     Accept(std::move(socket), peer, admitted);
                   });
}

void Server::Adopt(UniqueFd socket, const PeerCredentials& peer) {
  Accept(std::move(socket), peer, {});
}

void Server::StopListening() {
  if (listener_) listener_->Stop();
}

void Server::CloseAll() {
  hellos_.clear();
  is_closing_ = true;
  while (!pumps_.empty()) {
    (void)EndSession(pumps_.begin()->first, {Code::kDisconnected, "the daemon is stopping"},
                     /*is_lost=*/true);
  }
}

Server::Counts Server::CountAll() const {
  return {.hellos = hellos_.size(),
          .pumps = pumps_.size(),
          .waiting_sessions = waiting_.count(),
          .connections = parts_.shares.ListHeld(Resource::kConnections)};
}

void Server::Accept(UniqueFd socket, const PeerCredentials& peer, const Status& admitted) {
  if (!admitted) return Refuse(socket.get(), peer, admitted.error());
  SessionShares shares{.account = parts_.shares.AccountOf(OwnerOf(peer.uid))};
  shares.connection = Share(shares.account, Resource::kConnections);
  if (Status taken = shares.connection.Grow(1); !taken) {
    return Refuse(socket.get(), peer, taken.error());
  }
  const HelloNumber number{++last_hello_};
  Hello& hello = hellos_[number];
  hello.shares = std::move(shares);
  hello.connection = std::make_unique<PendingHello>(
      parts_.loop, std::move(socket), peer, options_.hello_deadline,
      PendingHello::Callbacks{
          .introduced = [this,
                         number](const wire::CheckedHello& asked) { Introduce(number, asked); },
          .failed = [this, number](const Error& why) { RefuseHello(number, why); }});
}

void Server::Refuse(int socket, const PeerCredentials& peer, const Error& why) {
  const std::string fields = PeerText(peer) + " " + ErrorText(why);
  if (why.code == Code::kDisconnected) {
    // The error kDisconnected means that the peer has closed the connection.
    Log(LogLevel::kDebug, "refused", fields);
  } else {
    limited_log_.Log(LogLevel::kWarning, "refused", fields);
  }
  SendRefusal(socket, why);
}

void Server::RefuseHello(HelloNumber number, const Error& why) {
  const auto found = hellos_.find(number);
  if (found == hellos_.end()) return;
  const PendingHello& refused = *found->second.connection;
  Refuse(refused.socket(), refused.peer(), why);
  EndHello(number);
}

void Server::EndHello(HelloNumber number) {
  auto ended = hellos_.extract(number);
  if (ended.empty()) return;
  // EndHello may be called from one of the hello's own callbacks, so the hello is destroyed later.
  parts_.loop.Post(
      [connection = std::shared_ptr<PendingHello>(std::move(ended.mapped().connection))] {});
}

void Server::Introduce(HelloNumber number, const wire::CheckedHello& asked) {
  const PeerCredentials peer = hellos_.at(number).connection->peer();
  if (Status known = EnterTenant(hellos_.at(number), peer.uid, asked.tenant); !known) {
    return RefuseHello(number, known.error());
  }
  const OwnerId owner = hellos_.at(number).shares.account->owner();
  if (Status allowed = CheckOutlive(hellos_.at(number), asked.outlive_seconds); !allowed) {
    return RefuseHello(number, allowed.error());
  }
  const Result<Opening> opening =
      asked.has_session_token ? TakeUp(asked.session_token, owner) : NewSession(owner, peer.pid);
  if (!opening) return RefuseHello(number, opening.error());
  Hello& hello = hellos_.at(number);
  hello.asked = asked;
  hello.opening = *opening;
  Admit(number);
}

Status Server::EnterTenant(Hello& hello, std::uint32_t uid, const TenantId& tenant) {
  if (tenant == kTenantZero) return {};
  KVD_TRY(auto account, parts_.shares.AdmitTenant(uid, tenant));
  Share connection(account, Resource::kConnections);
  KVD_CHECK_OK(connection.Grow(1));
  service_.LimitOwners();
  hello.shares.connection_of_uid = std::move(hello.shares.connection);
  hello.shares.connection = std::move(connection);
  hello.shares.account = std::move(account);
  return {};
}

Status Server::CheckOutlive(const Hello& hello, std::uint32_t outlive_seconds) const {
  const std::uint64_t limit = parts_.shares.OutliveSecondsMax(hello.shares.account->owner());
  if (outlive_seconds <= limit) return {};
  return Fail(Code::kNoSpace, "hello.outlive_seconds: ", outlive_seconds, ", this owner may have ",
              limit);
}

Result<Server::Opening> Server::NewSession(OwnerId owner, pid_t pid) {
  Memory& memory = parts_.engine.memory();
  const auto id = static_cast<SessionId>(++last_session_);
  KVD_TRY(const IssuedToken issued, IssueToken(id, owner));
  Opening opening{.token = issued.token, .session = issued.session, .is_new = true};
  opening.session.process = DescribeProcess(pid);
  const SessionEntry entry = EntryOf(opening.session);
  Status stored = memory.sessions().Open(entry);
  if (!stored && waiting_.GiveUpOldest(owner)) stored = memory.sessions().Open(entry);
  if (!stored) opening.token = {};
  return opening;
}

Result<Server::Opening> Server::TakeUp(const SessionToken& token, OwnerId owner) {
  for (const auto& [id, pump] : pumps_) {
    const auto& stored = pump->session()->identity().stored;
    if (!stored || stored->owner != owner || !IsTokenOf(token, *stored)) continue;
    // The old pump is destroyed at once, because it must not take another submission.
    (void)EndSession(id, {Code::kDisconnected, "the client has connected again"}, /*is_lost=*/true);
    break;
  }
  // The session may also belong to an earlier hello that the client has abandoned.
  for (const auto& [number, hello] : hellos_) {
    if (!hello.opening || hello.opening->session.owner != owner ||
        !IsTokenOf(token, hello.opening->session)) {
      continue;
    }
    const Opening opening = *hello.opening;
    RefuseHello(number,
                {Code::kConflict, "session_token: a later connection has taken over the session"});
    return opening;
  }
  if (const auto stored = waiting_.Take(token, owner)) {
    return Opening{.token = token, .session = *stored, .is_new = false};
  }
  return Fail(
      Code::kSessionLost,
      "session_token: no waiting session has this token: the daemon was started without its "
      "state, or the wait for the client has timed out");
}

void Server::Admit(HelloNumber number) {
  constexpr std::chrono::milliseconds kRetry{2};
  const auto found = hellos_.find(number);
  if (found == hellos_.end()) return;
  Hello& hello = found->second;
  if (parts_.scheduler.HasRequests(hello.opening->session.id)) {
    // The session still has requests of its previous connection. These requests are cancelled and
    // end with the step in progress; until they end, they use their sequences.
    hello.retry = parts_.loop.After(kRetry, [this, number] { Admit(number); });
    return;
  }
  const Status opened = Open(hello);
  if (opened) return EndHello(number);
  const Opening opening = *hello.opening;
  const pid_t pid = hello.connection->peer().pid;
  RefuseHello(number, opened.error());
  if (opening.is_new) return service_.SessionClosed(opening.session.id);
  AwaitClient(opening.session, pid);
}

Status Server::Open(Hello& opened) {
  const wire::CheckedHello& hello = opened.asked;
  const Opening& opening = *opened.opening;
  const PeerCredentials peer = opened.connection->peer();
  const std::shared_ptr<OwnerAccount>& account = opened.shares.account;
  Share results(account, Resource::kResultArenaBytes);
  KVD_CHECK_OK(results.Grow(hello.geometry.result_arena_bytes));
  Share requests(account, Resource::kRequestArenaBytes);
  KVD_CHECK_OK(requests.Grow(hello.geometry.request_arena_bytes));
  Share outliving(account, Resource::kOutlivingSessions);
  if (hello.outlive_seconds > 0) KVD_CHECK_OK(outliving.Grow(1));
  const SessionId id = opening.session.id;
  KVD_TRY(CreatedChannel created,
          CreateChannel(hello.geometry, Concat("kvd-", static_cast<std::uint64_t>(id))));

  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kProtocolVersion;
  welcome.descriptor_count = 2;
  welcome.session = static_cast<std::uint64_t>(id);
  std::ranges::copy(opening.token, welcome.session_token);
  welcome.last_request =
      opening.is_new
          ? 0
          : static_cast<std::uint64_t>(parts_.engine.memory().sessions().LastRequest(id));
  welcome.submission_entries = hello.geometry.submission_entries;
  welcome.completion_entries = hello.geometry.completion_entries;
  welcome.request_segment_bytes = hello.geometry.request_segment_bytes();
  welcome.result_segment_bytes = hello.geometry.result_segment_bytes();
  welcome.vocab_size = parts_.engine.config().vocab_size;
  welcome.daemon_pid = static_cast<std::uint32_t>(::getpid());
  welcome.pool_cells =
      std::uint64_t{parts_.engine.memory().Usage().total_blocks} * layout::kBlockCells;
  std::vector<int> descriptors = {created.descriptors[0].get(), created.descriptors[1].get()};
  if (hello.wants_map) {
    KVD_TRY(const int map, maps_.Watch(account->owner()));
    descriptors.push_back(map);
    welcome.descriptor_count = 3;
  }
  if (Status sent = SendWithDescriptors(opened.connection->socket(),
                                        std::as_bytes(std::span(&welcome, 1)), descriptors);
      !sent) {
    if (hello.wants_map) maps_.Unwatch(account->owner());
    return sent;
  }

  opened.shares.result_arena = std::move(results);
  opened.shares.request_arena = std::move(requests);
  opened.shares.outliving = std::move(outliving);
  const bool is_stored = opening.token != SessionToken{};
  StoredSession stored = opening.session;
  const ClientProcess process = DescribeProcess(peer.pid);
  if (process != stored.process || hello.outlive_seconds != stored.outlive_seconds) {
    stored.process = process;
    stored.outlive_seconds = hello.outlive_seconds;
    // SetNote returns kNotFound if the session is not stored.
    (void)parts_.engine.memory().sessions().SetNote(id, NoteOf(stored));
  }
  auto session = std::make_shared<Session>(
      SessionIdentity{.id = id,
                      .peer = peer,
                      .owner = account->owner(),
                      .name = hello.name,
                      .watches_map = hello.wants_map,
                      .cache_salt = hello.cache_salt,
                      .shares_prefixes = hello.shares_prefixes,
                      .stored = is_stored ? std::optional(stored) : std::nullopt,
                      .returns = hello.returns},
      opened.connection->TakeSocket(), std::move(created.channel),
      [this](SessionId wanting) { WantPump(wanting); }, std::move(opened.shares));
  pumps_.emplace(id, std::make_unique<SessionPump>(
                         SessionPump::Parts{
                             .loop = parts_.loop,
                             .workers = parts_.workers,
                             .service = service_,
                             .scheduler = parts_.scheduler,
                             .closed =
                                 [this](SessionId gone, const Error& why) {
                                   const bool is_lost = why.code == Code::kDisconnected;
                                   parts_.loop.Post([ended = EndSession(gone, why, is_lost)] {});
                                 },
                             .pump_wanted = [this](SessionId wanting) { WantPump(wanting); }},
                         std::move(session)));
  Log(LogLevel::kDebug, opening.is_new ? "connect" : "reconnect",
      SessionText(id) + " " + PeerText(peer) + " name=" + Quoted(hello.name));
  return {};
}

// `is_lost`: the client did not end the session, so the client may reconnect.
std::shared_ptr<SessionPump> Server::EndSession(SessionId id, const Error& why, bool is_lost) {
  const auto found = pumps_.find(id);
  if (found == pumps_.end()) return nullptr;
  std::shared_ptr<SessionPump> ended = std::move(found->second);
  pumps_.erase(found);
  Session& session = *ended->session();
  session.Close();
  parts_.workers.CancelSession(id);
  const auto& stored = session.identity().stored;
  const bool is_awaited =
      is_closing_ || options_.reconnect_wait.count() > 0 || (stored && stored->outlive_seconds > 0);
  if (is_lost && stored && is_awaited && !ended->HasSaidGoodbye()) {
    service_.SessionLost(id);
    if (!is_closing_) AwaitClient(*stored, session.identity().peer.pid);
  } else {
    service_.SessionClosed(id);
  }
  if (session.identity().watches_map) maps_.Unwatch(session.owner());
  const std::string fields =
      SessionText(id) + " " + PeerText(session.identity().peer) + " " + ErrorText(why);
  if (why.code == Code::kDisconnected) {
    Log(LogLevel::kDebug, "disconnect", fields);
  } else {
    limited_log_.Log(LogLevel::kWarning, "protocol_violation", fields);
  }
  return ended;
}

void Server::DescribeSessions(OwnerId owner, std::vector<layout::MapSession>* sessions) const {
  for (const auto& [id, pump] : pumps_) {
    const Session& session = *pump->session();
    if (session.owner() != owner) continue;
    layout::MapSession entry{};
    entry.session = static_cast<std::uint64_t>(id);
    entry.uid = session.identity().peer.uid;
    entry.pid = static_cast<std::uint32_t>(session.identity().peer.pid);
    entry.tokens_computed = session.tokens_computed();
    entry.tokens_sampled = session.tokens_sampled();
    session.identity().name.copy(entry.client_name, sizeof entry.client_name);
    sessions->push_back(entry);
  }
}

void Server::WantPump(SessionId session) {
  parts_.loop.Post([this, session] {
    const auto found = pumps_.find(session);
    if (found != pumps_.end()) found->second->Pump();
  });
}

}  // namespace kvd
