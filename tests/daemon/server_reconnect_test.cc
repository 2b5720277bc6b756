// Tests fixed orders of events around a reconnect and a stop of the server. The random simulation
// (server_simulation_test.cc) may not produce the orders of events that this file tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "daemon/server.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/simulated_connection.h"
#include "tests/daemon/support/simulated_loop.h"
#include "tests/daemon/support/simulated_workers.h"

namespace kvd::server_reconnect_test {
namespace {

using std::chrono::milliseconds;
using test::SimulatedConnection;
using State = test::SimulatedConnection::State;
using testing::HasSubstr;
using wire::Verb;

constexpr std::uint32_t kOwn = 1000;

class ServerReconnectTest : public testing::Test {
 protected:
  ServerReconnectTest() {
    server_ = std::make_unique<Server>(Server::Parts{.loop = loop_,
                                                     .workers = workers_,
                                                     .engine = engine_,
                                                     .scheduler = scheduler_,
                                                     .shares = shares_},
                                       ServerOptions{.reconnect_wait = std::chrono::hours(1)});
  }

  std::unique_ptr<SimulatedConnection> Connect(const std::uint8_t* token = nullptr) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    wire::Hello hello{};
    hello.magic = wire::kHelloMagic;
    hello.version = wire::kProtocolVersion;
    hello.flags = wire::kHelloReturns;
    if (token != nullptr) std::copy_n(token, sizeof hello.session_token, hello.session_token);
    server_->Adopt(UniqueFd(pair[0]), {.pid = 0, .uid = kOwn, .gid = kOwn});
    auto connection = std::make_unique<SimulatedConnection>(UniqueFd(pair[1]), kOwn, hello);
    connection->SendHello(sizeof hello);
    return connection;
  }
  void RunLoop() {
    while (loop_.RunOne()) {
    }
  }
  // Submits the request, runs the loop and the scheduler until both are idle, and returns the
  // completion.
  wire::Completion Call(SimulatedConnection& connection, Verb verb, SequenceHandle sequence = {},
                        std::span<const std::byte> payload = {}) {
    wire::Submission submission{};
    submission.request = ++last_request_;
    submission.verb = static_cast<std::uint16_t>(verb);
    submission.sequence = static_cast<std::uint64_t>(sequence);
    submission.p0 = verb == Verb::kGenerate ? -1 : 0;
    EXPECT_TRUE(connection.Submit(submission, payload));
    RunLoop();
    while (scheduler_.RunOnce()) {
    }
    wire::Completion answer{};
    EXPECT_TRUE(Receive(connection, &answer));
    EXPECT_EQ(answer.request, submission.request);
    EXPECT_EQ(answer.code, 0);
    return answer;
  }
  Status Receive(SimulatedConnection& connection, wire::Completion* answer = nullptr) {
    return connection.Receive([&](const auto&, const wire::Completion& completion, auto) -> Status {
      if (answer != nullptr) *answer = completion;
      return {};
    });
  }
  std::vector<std::byte> Prompt(std::size_t tokens) {
    const std::vector<TokenId> prompt(tokens, 5);
    wire::GenerateView view;
    view.params.sampling = DefaultSamplingAt(0);
    view.params.token_count = static_cast<std::uint32_t>(tokens);
    view.tokens = prompt;
    std::vector<std::byte> payload(wire::GenerateBytes(view));
    wire::EncodeGenerate(view, payload);
    return payload;
  }
  void Submit(SimulatedConnection& connection, wire::Submission submission,
              std::span<const std::byte> payload = {}) {
    submission.request = ++last_request_;
    EXPECT_TRUE(connection.Submit(submission, payload));
    RunLoop();
  }

  test::FakeEngine engine_{{.has_state = true}};
  Shares shares_{{}, OwnerOf(kOwn), true};
  // The loop always chooses the first ready call, so that timers and descriptors precede posted
  // calls.
  test::SimulatedLoop loop_{[](std::size_t) { return std::size_t{0}; }};
  test::SimulatedWorkers workers_{[](std::size_t) { return std::size_t{0}; }};
  Scheduler scheduler_{engine_, engine_.config().vocab_size, {}};
  std::unique_ptr<Server> server_;
  std::uint64_t last_request_ = 0;
};

TEST_F(ServerReconnectTest, TheEarlierOfTwoHellosWithOneTokenIsRefused) {
  const auto first = Connect();
  RunLoop();
  ASSERT_TRUE(Receive(*first));
  ASSERT_EQ(first->state(), State::kWelcomed);
  const auto sequence = static_cast<SequenceHandle>(Call(*first, Verb::kCreate).sequence);
  const auto generate = wire::MakeSubmission(wire::GenerateArgs{.sequence = sequence});
  // The scheduler does not run, so that the generation stays in flight.
  Submit(*first, generate, Prompt(8));

  const auto second = Connect(first->welcome().session_token);
  RunLoop();
  const auto third = Connect(first->welcome().session_token);
  EXPECT_EQ(server_->CountAll().hellos, 2u);
  ASSERT_TRUE(loop_.RunOne());  // the third hello is read
  loop_.Advance(milliseconds(2));
  ASSERT_TRUE(loop_.RunOne());  // a timer runs before the posted calls
  RunLoop();
  EXPECT_EQ(server_->CountAll().hellos, 1u);
  ASSERT_TRUE(Receive(*second));
  EXPECT_EQ(second->state(), State::kRefused);
  EXPECT_EQ(second->code(), Code::kConflict);
  EXPECT_THAT(second->welcome().message, HasSubstr("later connection"));

  const auto newcomer = Connect();  // may have the address of the freed second connection
  while (scheduler_.RunOnce()) {
  }
  loop_.Advance(milliseconds(2));
  RunLoop();
  ASSERT_TRUE(Receive(*third));
  ASSERT_TRUE(Receive(*newcomer));
  ASSERT_EQ(third->state(), State::kWelcomed);
  EXPECT_EQ(third->welcome().session, first->welcome().session);
  EXPECT_NE(newcomer->welcome().session, first->welcome().session);
  const Server::Counts counts = server_->CountAll();
  EXPECT_EQ(counts.hellos, 0u);
  EXPECT_EQ(counts.pumps, 2u);
  EXPECT_EQ(counts.connections.at(OwnerOf(kOwn)), 2u);
  EXPECT_TRUE(engine_.memory().sequences().Query(sequence));
}

TEST_F(ServerReconnectTest, AConnectionThatWasTakenOverAcceptsNoSubmission) {
  const auto first = Connect();
  RunLoop();
  ASSERT_TRUE(Receive(*first));
  const auto second = Connect(first->welcome().session_token);
  ASSERT_TRUE(loop_.RunOne());  // the second hello is read; the first connection has ended
  wire::Submission create{};
  create.verb = static_cast<std::uint16_t>(Verb::kCreate);
  Submit(*first, create);
  EXPECT_EQ(engine_.memory().Usage().live_sequences, 0u);
}

TEST_F(ServerReconnectTest, AReplayAtAStopEndsBeforeTheServer) {
  const auto client = Connect();
  RunLoop();
  ASSERT_TRUE(Receive(*client));
  const auto sequence = static_cast<SequenceHandle>(Call(*client, Verb::kCreate).sequence);
  (void)Call(*client, Verb::kGenerate, sequence, Prompt(40));
  const auto fork = wire::MakeSubmission(wire::ForkArgs{.sequence = sequence, .cells = 25});
  Submit(*client, fork);
  EXPECT_TRUE(scheduler_.RunOnce());  // replays one of 25 tokens
  EXPECT_EQ(engine_.memory().Usage().live_sequences, 2u);
  scheduler_.Stop();
  scheduler_.Run();
  server_->CloseAll();
  EXPECT_EQ(engine_.memory().Usage().live_sequences, 2u) << "its client comes back";
  server_.reset();
  EXPECT_EQ(engine_.memory().Usage().live_sequences, 1u) << "the fork is given back";
}

}  // namespace
}  // namespace kvd::server_reconnect_test
