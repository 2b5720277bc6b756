// A hello or a conversation ends inside its own callback: it is taken out of its map at once and
// destroyed by a posted call.
#include "daemon/server.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/log.h"
#include "engine/model_config.h"
#include "shm/fd_passing.h"

namespace kvd {
namespace {

std::string PeerText(const PeerCredentials& peer) {
  return "uid=" + std::to_string(peer.uid) + " pid=" + std::to_string(peer.pid);
}

std::string SessionText(SessionId session) {
  return "session=" + std::to_string(static_cast<std::uint64_t>(session));
}

std::string ErrorText(const Error& error) {
  return std::string(CodeName(error.code)) + " " + Quoted(error.message);
}

}  // namespace

Server::Server(const Parts& parts, const ServerOptions& options)
    : parts_(parts),
      options_(options),
      service_(
          parts.engine, parts.scheduler, parts.quotas, parts.shares,
          {.pid_of_session = [this](SessionId session) -> std::uint32_t {
             const auto found = conversations_.find(session);
             if (found == conversations_.end()) return 0;
             return static_cast<std::uint32_t>(found->second->session()->identity().peer.pid);
           },
           .session_count = [this] { return static_cast<std::uint32_t>(conversations_.size()); },
           .requests_in_flight =
               [this](std::uint32_t uid) {
                 std::uint32_t requests = 0;
                 for (const auto& [id, conversation] : conversations_) {
                   const Session& session = *conversation->session();
                   if (session.uid() == uid) requests += session.requests_in_flight();
                 }
                 return requests;
               },
           .saved_states = parts.saved_states,
           .prompt_cache = parts.prompt_cache},
          options.prefixes),
      maps_(parts.loop, parts.engine.memory(),
            {.counters =
                 [this] {
                   const EngineCounters engine = parts_.engine.counters();
                   return MapCounters{
                       .tokens_computed = engine.tokens_computed,
                       .tokens_sampled = parts_.scheduler.tokens_sampled(),
                       .steps = engine.steps,
                       .sessions = static_cast<std::uint32_t>(conversations_.size())};
                 },
             .sessions =
                 [this](std::uint32_t uid, std::vector<layout::MapSession>* sessions) {
                   DescribeSessions(uid, sessions);
                 }}) {}

Server::~Server() = default;

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
  while (!conversations_.empty()) {
    (void)EndSession(conversations_.begin()->first, {Code::kDisconnected, "the daemon stops"});
  }
}

void Server::Accept(UniqueFd socket, const PeerCredentials& peer, const Status& admitted) {
  if (!admitted) return Refuse(socket.get(), peer, admitted.error());
  UidCounts& counts = counts_[peer.uid];
  if (Status allowed = parts_.quotas.CheckConnections(peer.uid, counts.connections); !allowed) {
    return Refuse(socket.get(), peer, allowed.error());
  }
  ++counts.connections;
  auto waiting = std::make_unique<PendingHello>(
      parts_.loop, std::move(socket), peer, options_.hello_deadline,
      PendingHello::Callbacks{
          .introduced = [this](PendingHello& ended,
                               const wire::CheckedHello& hello) { Introduce(ended, hello); },
          .failed =
              [this](PendingHello& ended, const Error& why) {
                Refuse(ended.socket(), ended.peer(), why);
                ReleaseConnection(ended.peer().uid);
                EndHello(ended);
              }});
  PendingHello* const key = waiting.get();
  hellos_.emplace(key, std::move(waiting));
}

void Server::Refuse(int socket, const PeerCredentials& peer, const Error& why) {
  Log(LogLevel::kWarning, "refused", PeerText(peer) + " " + ErrorText(why));
  SendRefusal(socket, why);
}

void Server::EndHello(PendingHello& waiting) {
  const auto found = hellos_.find(&waiting);
  if (found == hellos_.end()) return;
  std::shared_ptr<PendingHello> ended = std::move(found->second);
  hellos_.erase(found);
  parts_.loop.Post([ended] {});
}

void Server::ReleaseConnection(std::uint32_t uid) {
  const auto found = counts_.find(uid);
  if (found == counts_.end()) return;
  if (--found->second.connections == 0) counts_.erase(found);
}

void Server::Introduce(PendingHello& waiting, const wire::CheckedHello& hello) {
  if (Status opened = Open(waiting, hello); !opened) {
    Refuse(waiting.socket(), waiting.peer(), opened.error());
    ReleaseConnection(waiting.peer().uid);
  }
  EndHello(waiting);
}

// A session token is handed out but not taken up again yet: private sequences go with their
// connection.
Status Server::Open(PendingHello& waiting, const wire::CheckedHello& hello) {
  const PeerCredentials peer = waiting.peer();
  UidCounts& counts = counts_[peer.uid];
  const std::uint64_t result_bytes = hello.geometry.result_arena_bytes;
  KVD_CHECK_OK(parts_.quotas.CheckResultBytes(peer.uid, counts.result_bytes, result_bytes));
  const auto id = static_cast<SessionId>(++last_session_);
  KVD_TRY(CreatedChannel created,
          CreateChannel(hello.geometry, "kvd-" + std::to_string(last_session_)));

  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kProtocolVersion;
  welcome.descriptor_count = 2;
  welcome.session = static_cast<std::uint64_t>(id);
  if (::getrandom(welcome.session_token, sizeof welcome.session_token, 0) !=
      sizeof welcome.session_token) {
    return FailErrno("session token");
  }
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
    KVD_TRY(const int map, maps_.Watch(peer.uid));
    descriptors.push_back(map);
    welcome.descriptor_count = 3;
  }
  if (Status sent =
          SendWithDescriptors(waiting.socket(), std::as_bytes(std::span(&welcome, 1)), descriptors);
      !sent) {
    if (hello.wants_map) maps_.Unwatch(peer.uid);
    return sent;
  }

  counts.result_bytes += result_bytes;
  auto session =
      std::make_shared<Session>(SessionIdentity{.id = id,
                                                .peer = peer,
                                                .name = hello.name,
                                                .watches_map = hello.wants_map,
                                                .cache_salt = hello.cache_salt,
                                                .shares_prefixes = hello.shares_prefixes},
                                waiting.TakeSocket(), std::move(created.channel),
                                [this](SessionId wanting) { WantPump(wanting); });
  conversations_.emplace(
      id, std::make_unique<Conversation>(
              Conversation::Parts{.loop = parts_.loop,
                                  .worker = parts_.worker,
                                  .files = parts_.files,
                                  .service = service_,
                                  .scheduler = parts_.scheduler,
                                  .closed =
                                      [this](SessionId gone, const Error& why) {
                                        parts_.loop.Post([ended = EndSession(gone, why)] {});
                                      },
                                  .pump_wanted = [this](SessionId wanting) { WantPump(wanting); }},
              std::move(session)));
  Log(LogLevel::kInfo, "connect",
      SessionText(id) + " " + PeerText(peer) + " name=" + Quoted(hello.name));
  return {};
}

std::shared_ptr<Conversation> Server::EndSession(SessionId id, const Error& why) {
  const auto found = conversations_.find(id);
  if (found == conversations_.end()) return nullptr;
  std::shared_ptr<Conversation> ended = std::move(found->second);
  conversations_.erase(found);
  Session& session = *ended->session();
  session.Close();
  service_.SessionClosed(id);
  counts_[session.uid()].result_bytes -= session.output_bytes_max();
  ReleaseConnection(session.uid());
  if (session.identity().watches_map) maps_.Unwatch(session.uid());
  const bool is_hang_up = why.code == Code::kDisconnected;
  Log(is_hang_up ? LogLevel::kInfo : LogLevel::kWarning,
      is_hang_up ? "disconnect" : "protocol_violation",
      SessionText(id) + " " + PeerText(session.identity().peer) + " " + ErrorText(why));
  return ended;
}

void Server::DescribeSessions(std::uint32_t uid, std::vector<layout::MapSession>* sessions) const {
  for (const auto& [id, conversation] : conversations_) {
    const Session& session = *conversation->session();
    if (session.uid() != uid) continue;
    layout::MapSession entry{};
    entry.session = static_cast<std::uint64_t>(id);
    entry.uid = uid;
    entry.pid = static_cast<std::uint32_t>(session.identity().peer.pid);
    entry.tokens_computed = session.tokens_computed();
    entry.tokens_sampled = session.tokens_sampled();
    sessions->push_back(entry);
  }
}

void Server::WantPump(SessionId session) {
  parts_.loop.Post([this, session] {
    const auto found = conversations_.find(session);
    if (found != conversations_.end()) found->second->Pump();
  });
}

}  // namespace kvd
