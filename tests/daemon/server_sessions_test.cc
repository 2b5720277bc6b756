// Tests hellos with session tokens: which sessions a client can resume, which sessions it cannot
// resume, and how long a session waits for its client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "daemon/process/io_loop.h"
#include "daemon/process/workers.h"
#include "daemon/server.h"
#include "daemon/sessions/client_process.h"
#include "shm/peer_socket.h"
#include "tests/daemon/support/fake_engine.h"

namespace kvd::server_sessions_test {
namespace {

using std::chrono::milliseconds;
using test::FakeEngine;
using testing::HasSubstr;

constexpr std::uint32_t kOwn = 1000;
constexpr std::uint32_t kOther = 1001;
constexpr milliseconds kPatience{30'000};

Quotas LimitedQuotas() {
  Quotas quotas;
  quotas.others.outliving_sessions = 2;
  return quotas;
}

// A server with its threads. The engine outlives the server.
class LiveServer {
 public:
  LiveServer(FakeEngine& engine, const ServerOptions& options)
      : shares_(LimitedQuotas(), OwnerOf(kOwn), true),
        scheduler_(engine, engine.config().vocab_size, {}),
        server_(std::make_unique<Server>(Server::Parts{.loop = loop_,
                                                       .workers = workers_,
                                                       .engine = engine,
                                                       .scheduler = scheduler_,
                                                       .shares = shares_},
                                         options)),
        thread_([this] { loop_.Run(); }) {}
  ~LiveServer() {
    OnLoop([this] { server_->CloseAll(); });
    workers_.Stop();
    loop_.Stop();
    thread_.join();
  }

  // Makes a connection whose peer has the given uid and pid for the server.
  UniqueFd Connect(std::uint32_t uid, pid_t pid) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    OnLoop([&] { server_->Adopt(UniqueFd(pair[0]), {.pid = pid, .uid = uid, .gid = uid}); });
    return UniqueFd(pair[1]);
  }
  void OnLoop(const std::function<void()>& call) {
    std::promise<void> done;
    loop_.Post([&] {
      call();
      done.set_value();
    });
    done.get_future().get();
  }

 private:
  Shares shares_;
  AsioLoop loop_;
  ThreadWorkers workers_;
  Scheduler scheduler_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

struct Greeted {
  UniqueFd socket;
  wire::Welcome welcome{};
  Code code() const { return static_cast<Code>(welcome.code); }
  SessionToken token() const {
    SessionToken token;
    std::ranges::copy(welcome.session_token, token.begin());
    return token;
  }
};

class ServerSessionsTest : public testing::Test {
 protected:
  void Start(milliseconds reconnect_wait = std::chrono::hours(1),
             milliseconds restart_wait = std::chrono::hours(1)) {
    server_.reset();
    server_.emplace(engine_,
                    ServerOptions{.reconnect_wait = reconnect_wait, .restart_wait = restart_wait});
  }
  Greeted Hello(std::uint32_t uid, const SessionToken& token = {}, pid_t pid = 1,
                const TenantId& tenant = kTenantZero, std::uint32_t outlive_seconds = 0) {
    Greeted greeted{.socket = server_->Connect(uid, pid)};
    wire::Hello hello{};
    hello.magic = wire::kHelloMagic;
    hello.version = wire::kProtocolVersion;
    std::ranges::copy(token, hello.session_token);
    std::ranges::copy(tenant, hello.tenant);
    hello.outlive_seconds = outlive_seconds;
    EXPECT_TRUE(SendWithDescriptors(greeted.socket.get(), std::as_bytes(std::span(&hello, 1)), {}));
    const auto came = ReceiveWithDescriptors(
        greeted.socket.get(), std::as_writable_bytes(std::span(&greeted.welcome, 1)), kPatience);
    EXPECT_TRUE(came) << came.error().message;
    return greeted;
  }
  bool Eventually(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  SequenceHandle Create(const Greeted& owner) {
    return *engine_.memory().sequences().Create(
        {.id = OwnerId{kOwn}, .session = static_cast<SessionId>(owner.welcome.session)});
  }
  std::size_t Stored() { return engine_.memory().sessions().List().size(); }
  std::size_t Live() { return engine_.memory().sequences().List().size(); }

  FakeEngine engine_;
  std::optional<LiveServer> server_;
};

TEST_F(ServerSessionsTest, ATokenResumesTheSession) {
  Start();
  Greeted first = Hello(kOwn);
  ASSERT_EQ(first.code(), Code::kOk) << first.welcome.message;
  EXPECT_EQ(first.welcome.last_request, 0u);
  (void)Create(first);
  const RequestTag applied{.session = static_cast<SessionId>(first.welcome.session),
                           .request = static_cast<RequestId>(77)};
  ASSERT_TRUE(engine_.memory().sequences().Create(
      {.id = OwnerId{kOwn}, .session = static_cast<SessionId>(first.welcome.session)}, applied));
  first.socket = UniqueFd();
  const Greeted second = Hello(kOwn, first.token());
  ASSERT_EQ(second.code(), Code::kOk) << second.welcome.message;
  EXPECT_EQ(second.welcome.session, first.welcome.session);
  EXPECT_EQ(second.token(), first.token());
  EXPECT_EQ(second.welcome.last_request, 77u);
  EXPECT_EQ(Live(), 2u);
  EXPECT_NE(Hello(kOwn).welcome.session, first.welcome.session);
}

TEST_F(ServerSessionsTest, ALiveConnectionIsTakenOver) {
  Start();
  const Greeted first = Hello(kOwn);
  const Greeted second = Hello(kOwn, first.token());
  EXPECT_EQ(second.welcome.session, first.welcome.session);
  std::byte byte;
  EXPECT_EQ(::recv(first.socket.get(), &byte, 1, 0), 0) << "hung up";
}

TEST_F(ServerSessionsTest, ATokenOfAnotherUidIsRefused) {
  Start();
  Greeted first = Hello(kOwn);
  Greeted thief = Hello(kOther, first.token());
  EXPECT_EQ(thief.code(), Code::kSessionLost);
  EXPECT_THAT(thief.welcome.message, HasSubstr("session_token"));
  first.socket = UniqueFd();
  thief = Hello(kOther, first.token());
  EXPECT_EQ(thief.code(), Code::kSessionLost);
  Start();
  thief = Hello(kOther, first.token());
  EXPECT_EQ(thief.code(), Code::kSessionLost);
  EXPECT_EQ(Hello(kOwn, first.token()).welcome.session, first.welcome.session);
}

TEST_F(ServerSessionsTest, TheNextServerKnowsTheSessionsAndGivesNewIds) {
  Start();
  const Greeted first = Hello(kOwn);
  const SequenceHandle sequence = Create(first);
  Start();
  EXPECT_EQ(Live(), 1u);
  EXPECT_GT(Hello(kOwn).welcome.session, first.welcome.session);
  EXPECT_EQ(Hello(kOwn, first.token()).welcome.session, first.welcome.session);
  EXPECT_TRUE(engine_.memory().sequences().Query(sequence));
}

TEST_F(ServerSessionsTest, SessionsThatNoClientResumesExpire) {
  Start(milliseconds(1));
  Greeted first = Hello(kOwn);
  (void)Create(first);
  first.socket = UniqueFd();
  EXPECT_TRUE(Eventually([&] { return Live() == 0 && Stored() == 0; }));
  EXPECT_EQ(Hello(kOwn, first.token()).code(), Code::kSessionLost);

  Start();
  const Greeted second = Hello(kOwn);
  (void)Create(second);
  Start(std::chrono::hours(1), milliseconds(1));
  EXPECT_TRUE(Eventually([&] { return Live() == 0 && Stored() == 0; }));
}

TEST_F(ServerSessionsTest, TheSessionOfAnEndedProcessIsDroppedAtOnce) {
  Start();
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  Greeted first = Hello(kOwn, {}, child);
  Greeted second = Hello(kOwn, {}, child);
  first.socket = UniqueFd();
  EXPECT_EQ(Hello(kOwn, first.token(), child).welcome.session, first.welcome.session);
  (void)Create(first);
  EXPECT_EQ(Stored(), 2u);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] { return Live() == 0 && Stored() == 1; }));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  second.socket = UniqueFd();
  EXPECT_TRUE(Eventually([&] { return Stored() == 0; }));
  EXPECT_EQ(Hello(kOwn, second.token()).code(), Code::kSessionLost);
}

TEST_F(ServerSessionsTest, SequencesOfUnknownSessionsAreDroppedAtTheStart) {
  ASSERT_TRUE(engine_.memory().sequences().Create({.id = OwnerId{kOwn}, .session = SessionId{9}}));
  Start();
  EXPECT_EQ(Live(), 0u);
  EXPECT_EQ(Hello(kOwn).welcome.session, 10u);
}

// A daemon that is killed while its prompt cache reads an entry leaves sequences without a session.
TEST_F(ServerSessionsTest, SequencesWithoutASessionAreDroppedOrRetainedAtTheStart) {
  const SequenceOwner no_session{
      .id = OwnerId{kOwn}, .session = SessionId::kNone, .namespace_salt = 0};
  ASSERT_TRUE(engine_.memory().sequences().Create(no_session));
  const SequenceHandle read = *engine_.memory().sequences().Create(no_session);
  const std::vector<TokenId> tokens(40, 5);
  StepItem item{.sequence = read, .pos = Pos{0}, .tokens = tokens, .first_logits_row = 40};
  engine_.Step({&item, 1});
  ASSERT_TRUE(item.status) << item.status.error().message;
  Start();
  // The entry that was read completely is kept as a retained sequence.
  ASSERT_EQ(Live(), 1u);
  EXPECT_EQ(engine_.memory().sequences().Query(read)->flags & layout::kSequenceRetained,
            std::uint32_t{layout::kSequenceRetained});
}

TEST_F(ServerSessionsTest, SessionsOfEndedClientsAreDroppedAfterARestart) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ready[1]);
    char byte = 0;
    (void)!::read(ready[0], &byte, 1);
    ::_exit(0);
  }
  ::close(ready[0]);
  Start();
  const Greeted theirs = Hello(kOwn, {}, child);
  const Greeted ours = Hello(kOwn, {}, ::getpid());
  ASSERT_EQ(Stored(), 2u);
  Start();
  EXPECT_EQ(Stored(), 2u) << "both are there";
  ::close(ready[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  // The running daemon gives up the session of a process that has ended.
  EXPECT_TRUE(Eventually([&] { return Stored() == 1; }));
  StoredSession left = SessionOf(engine_.memory().sessions().List().front());
  EXPECT_EQ(left.process, DescribeProcess(::getpid()));
  server_.reset();
  // The stored session's process has the pid of a running process, but another start time.
  --left.process.start;
  ASSERT_TRUE(engine_.memory().sessions().SetNote(left.id, NoteOf(left)));
  Start();
  EXPECT_EQ(Stored(), 0u);
  EXPECT_EQ(Hello(kOwn, ours.token()).code(), Code::kSessionLost);
}

TEST_F(ServerSessionsTest, UnknownProcessesAreNotTakenForEnded) {
  EXPECT_EQ(DescribeProcess(0), ClientProcess{});
  EXPECT_FALSE(FindProcess({}).is_gone);
  EXPECT_FALSE(FindProcess({}).pidfd);
  ClientProcess elsewhere = DescribeProcess(::getpid());
  ASSERT_NE(elsewhere.start, 0u);
  EXPECT_TRUE(FindProcess(elsewhere).pidfd);
  ++elsewhere.pid_namespace;
  ++elsewhere.start;
  EXPECT_FALSE(FindProcess(elsewhere).is_gone);
  EXPECT_FALSE(FindProcess(elsewhere).pidfd);
}

TEST_F(ServerSessionsTest, AGoodbyeEndsTheSessionAtOnce) {
  Start();
  Greeted first = Hello(kOwn);
  (void)Create(first);
  ASSERT_TRUE(SayGoodbye(first.socket.get()));
  first.socket = UniqueFd();
  EXPECT_TRUE(Eventually([&] { return Live() == 0 && Stored() == 0; }));
}

TEST_F(ServerSessionsTest, ASessionWithoutRoomForItsRecordCannotBeResumed) {
  Start();
  std::vector<Greeted> greeted;
  while (Stored() < 16) greeted.push_back(Hello(kOwn));
  const Greeted one_more = Hello(kOwn);
  ASSERT_EQ(one_more.code(), Code::kOk);
  EXPECT_EQ(one_more.token(), SessionToken{});
  // A session without a connection is given up to make room for a new session.
  Greeted& gone = greeted.front();
  gone.socket = UniqueFd();
  SessionToken last{};
  EXPECT_TRUE(Eventually([&] { return (last = Hello(kOwn).token()) != SessionToken{}; }));
  EXPECT_EQ(Hello(kOwn, gone.token()).code(), Code::kSessionLost);
}

// ------------------------------------------------------------------------------------- tenants

constexpr TenantId kFirst{1};
constexpr TenantId kSecond{2};

TEST_F(ServerSessionsTest, OnlyTheTenantsUidOpensSessionsOfTenants) {
  Start();
  const Greeted refused = Hello(kOther, {}, 1, kFirst);
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_THAT(refused.welcome.message, HasSubstr("hello.tenant: uid 1001 may not name a tenant"));
  EXPECT_EQ(Hello(kOwn, {}, 1, kFirst).code(), Code::kOk);
}

TEST_F(ServerSessionsTest, ATokenResumesTheSessionOnlyForItsTenant) {
  Start();
  Greeted first = Hello(kOwn, {}, 1, kFirst);
  ASSERT_EQ(first.code(), Code::kOk);
  first.socket = {};
  EXPECT_EQ(Hello(kOwn, first.token(), 1, kSecond).code(), Code::kSessionLost);
  EXPECT_EQ(Hello(kOwn, first.token(), 1).code(), Code::kSessionLost);
  const Greeted again = Hello(kOwn, first.token(), 1, kFirst);
  EXPECT_EQ(again.code(), Code::kOk);
  EXPECT_EQ(again.welcome.session, first.welcome.session);
}

TEST_F(ServerSessionsTest, ConnectionsOfATenantAreLimited) {
  Start();
  std::vector<Greeted> all;
  for (int i = 0; i < 8; ++i) all.push_back(Hello(kOwn, {}, 1, kFirst));
  EXPECT_EQ(all.back().code(), Code::kOk);
  const Greeted refused = Hello(kOwn, {}, 1, kFirst);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_THAT(refused.welcome.message, HasSubstr("connections: 1 more wanted"));
  EXPECT_EQ(Hello(kOwn, {}, 1, kSecond).code(), Code::kOk);
  all.pop_back();
  EXPECT_TRUE(Eventually([&] { return Hello(kOwn, {}, 1, kFirst).code() == Code::kOk; }));
}

// ------------------------------------------------------- sessions that outlive their processes

// Forks a child that waits until End is called.
pid_t StartChild() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  return child;
}
void End(pid_t child) {
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(ServerSessionsTest, ASessionThatOutlivesItsProcessWaitsForAnotherOne) {
  const pid_t child = StartChild();
  const pid_t brief = StartChild();
  Start(milliseconds(2000));
  Greeted outliving = Hello(kOwn, {}, child, kFirst, 1000);
  Greeted ordinary = Hello(kOwn, {}, brief);
  ASSERT_EQ(outliving.code(), Code::kOk);
  const SequenceHandle sequence = *engine_.memory().sequences().Create(
      {.id = OwnerOf(kOwn, kFirst), .session = static_cast<SessionId>(outliving.welcome.session)});
  outliving.socket = {};
  ordinary.socket = {};
  End(child);
  End(brief);
  EXPECT_TRUE(Eventually([&] { return Stored() == 1; })) << "the ordinary session is given up";
  EXPECT_TRUE(engine_.memory().sequences().Query(sequence));
  // Another process brings the token; it may also end the session's right to outlive it.
  const Greeted again = Hello(kOwn, outliving.token(), ::getpid(), kFirst, 0);
  ASSERT_EQ(again.code(), Code::kOk) << again.welcome.message;
  EXPECT_EQ(again.welcome.session, outliving.welcome.session);
  EXPECT_TRUE(engine_.memory().sequences().Query(sequence));
  EXPECT_TRUE(Eventually(
      [&] { return SessionOf(engine_.memory().sessions().List().front()).outlive_seconds == 0; }));
}

TEST_F(ServerSessionsTest, ASessionThatOutlivesItsProcessSurvivesARestart) {
  const pid_t child = StartChild();
  Start();
  const Greeted outliving = Hello(kOwn, {}, child, kFirst, 1000);
  ASSERT_EQ(outliving.code(), Code::kOk);
  server_.reset();
  End(child);
  Start();
  EXPECT_EQ(Stored(), 1u);
  EXPECT_EQ(Hello(kOwn, outliving.token(), ::getpid(), kFirst, 1000).code(), Code::kOk);
}

TEST_F(ServerSessionsTest, AGoodbyeEndsASessionThatWouldOutliveItsProcess) {
  Start();
  Greeted greeted = Hello(kOwn, {}, 1, kFirst, 1000);
  ASSERT_EQ(greeted.code(), Code::kOk);
  ASSERT_TRUE(SayGoodbye(greeted.socket.get()));
  greeted.socket = {};
  EXPECT_TRUE(Eventually([&] { return Stored() == 0; }));
}

TEST_F(ServerSessionsTest, TheTimeAndTheNumberOfOutlivingSessionsAreLimited) {
  Start();
  const Greeted refused = Hello(kOther, {}, 1, kTenantZero, 3601);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_THAT(refused.welcome.message,
              HasSubstr("hello.outlive_seconds: 3601, this owner may have 3600"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        Eventually([&] { return Hello(kOther, {}, 1, kTenantZero, 3600).code() == Code::kOk; }));
    ASSERT_TRUE(Eventually([&] { return Stored() == static_cast<std::size_t>(i) + 1; }));
  }
  const Greeted one_more = Hello(kOther, {}, 1, kTenantZero, 3600);
  EXPECT_EQ(one_more.code(), Code::kNoSpace);
  EXPECT_THAT(one_more.welcome.message,
              HasSubstr("sessions that outlive their processes: 1 more wanted"));
  EXPECT_EQ(Hello(kOther).code(), Code::kOk);
}

}  // namespace
}  // namespace kvd::server_sessions_test
