// Tests clients that break every rule of the protocol, with the real daemon. After each such
// client, another client gets its correct answer.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/e2e/support/raw_client.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using test::ConnectRaw;
using test::GoodHello;
using test::RawClient;
using test::SubmissionOf;
using ::testing::HasSubstr;
using wire::Verb;

// The time in milliseconds within which the daemon must react; a bound for slow machines.
constexpr int kSoon = 5000;

class HostileClientTest : public test::ServedDaemonTest {
 protected:
  HostileClientTest() : ServedDaemonTest({"--hello-timeout-ms", "500"}) {}

  RawClient Raw() {
    auto client = RawClient::Connect(socket_path());
    EXPECT_TRUE(client.has_value());
    return std::move(*client);
  }
  wire::InfoReply Info() { return *Connect().Info(); }
  // Waits until the daemon has `count` sessions: it notices the end of a client after a short time.
  void ExpectSessions(std::uint32_t count) {
    std::uint32_t found = 0;
    for (int i = 0; i < kSoon / 10; ++i) {
      found = Info().sessions;
      if (found == count) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(found, count);
  }
};

TEST_F(HostileClientTest, AJumpingRingTailClosesOnlyThatClient) {
  for (const std::uint64_t tail : {std::uint64_t{257}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    RawClient client = Raw();
    client.requests_header().submission_tail.store(tail);
    client.Ring();
    EXPECT_TRUE(client.HungUpWithin(kSoon)) << tail;
  }
  EXPECT_TRUE(test::LogShows(*daemon_, "protocol_violation"));
  EXPECT_TRUE(test::LogShows(*daemon_, "submission_tail"));
  ExpectServesOthers();
}

TEST_F(HostileClientTest, CursorsBeyondTheGrantedRangeCloseOnlyThatClient) {
  {
    RawClient client = Raw();
    client.requests_header().completion_head.store(5);
    client.Ring();
    EXPECT_TRUE(client.HungUpWithin(kSoon));
  }
  {
    RawClient client = Raw();
    client.requests_header().output_released.store(~std::uint64_t{0});
    client.Ring();
    EXPECT_TRUE(client.HungUpWithin(kSoon));
  }
  ExpectServesOthers();
}

TEST_F(HostileClientTest, RandomBytesInTheRingsDoNotCrashTheDaemon) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    RawClient client = Raw();
    const auto entries = client.request_bytes().subspan(sizeof(layout::RequestsHeader));
    std::atomic<bool> stop = false;
    std::thread scribbler([&, seed = random()] {
      std::mt19937_64 bytes(seed);
      while (!stop) entries[bytes() % entries.size()] = static_cast<std::byte>(bytes());
    });
    for (int i = 0; i < 200; ++i) {
      // The verb is valid in most submissions; the other fields are random.
      wire::Submission submission =
          SubmissionOf(static_cast<Verb>(random() % (wire::kVerbLast + 2)), random());
      submission.flags = static_cast<std::uint16_t>(random() % 3 == 0 ? random() : 0);
      submission.sequence = random() % 8;
      submission.p0 = static_cast<std::int32_t>(random());
      submission.argument = static_cast<std::int64_t>(random() % 1000);
      std::vector<std::byte> payload(random() % 100);
      for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
      (void)client.Submit(submission, payload);
      wire::Completion completion{};
      const auto next = client.channel().completions().Next(completion);
      if (next && *next) client.channel().completions().Release(completion);
    }
    stop = true;
    scribbler.join();
  }
  ExpectServesOthers();
}

TEST_F(HostileClientTest, RandomBytesInTheRequestsSegmentDoNotCrashTheDaemon) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    RawClient client = Raw();
    const auto bytes = client.request_bytes();
    for (int i = 0; i < 50; ++i) {
      const auto header_bytes = sizeof(layout::RequestsHeader) + 4096;
      bytes[random() % header_bytes] = static_cast<std::byte>(random());
      client.Ring();
    }
  }
  ExpectServesOthers();
}

TEST_F(HostileClientTest, ASlowHelloIsClosedWithTheReason) {
  const UniqueFd silent = ConnectRaw(socket_path());
  const UniqueFd half = ConnectRaw(socket_path());
  const wire::Hello hello = GoodHello();
  ASSERT_EQ(::send(half.get(), &hello, sizeof hello / 2, MSG_NOSIGNAL), sizeof hello / 2);
  for (const int socket : {silent.get(), half.get()}) {
    wire::Welcome welcome{};
    ASSERT_EQ(::recv(socket, &welcome, sizeof welcome, MSG_WAITALL), sizeof welcome);
    EXPECT_EQ(static_cast<Code>(welcome.code), Code::kTimeout);
    EXPECT_THAT(welcome.message, HasSubstr("hello"));
    EXPECT_EQ(::recv(socket, &welcome, 1, 0), 0) << "closed";
  }
  ExpectServesOthers();
}

TEST_F(HostileClientTest, MalformedHellosAreRefusedByName) {
  const auto refuse = [this](auto spoil) {
    wire::Hello hello = GoodHello();
    spoil(hello);
    wire::Welcome welcome{};
    EXPECT_FALSE(RawClient::Connect(socket_path(), hello, &welcome));
    return welcome;
  };
  EXPECT_THAT(refuse([](wire::Hello& h) { h.magic = 1; }).message, HasSubstr("magic"));
  EXPECT_EQ(static_cast<Code>(refuse([](wire::Hello& h) { h.version = 99; }).code),
            Code::kVersionMismatch);
  EXPECT_NE(refuse([](wire::Hello& h) { h.flags = wire::kHelloFlagsAll + 1; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.submission_entries = 100; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.submission_entries = 1u << 31; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.result_arena_bytes = ~0ull; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.request_arena_bytes = 1; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.name[0] = '\n'; }).code, 0);
  EXPECT_NE(refuse([](wire::Hello& h) { h.reserved[11] = 1; }).code, 0);
  ExpectServesOthers();
}

TEST_F(HostileClientTest, SmuggledDescriptorsAreDropped) {
  RawClient client = Raw();
  const std::uint32_t before = Info().descriptors;
  for (int i = 0; i < 100; ++i) {
    int descriptors[8];
    std::ranges::fill(descriptors, client.socket());
    std::byte byte{1};
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
    ASSERT_EQ(::sendmsg(client.socket(), &message, MSG_NOSIGNAL), 1);
  }
  // 800 descriptors were sent. Either count may include a connection of Info() that is still being
  // closed, hence the tolerance of 3.
  EXPECT_NEAR(Info().descriptors, before, 3);
  ExpectServesOthers();
}

TEST_F(HostileClientTest, ClientsCanNeitherTruncateSegmentsNorWriteResults) {
  RawClient client = Raw();
  for (const int descriptor : {client.requests_descriptor(), client.results_descriptor()}) {
    EXPECT_NE(::ftruncate(descriptor, 4096), 0);
    EXPECT_NE(::ftruncate(descriptor, 1 << 30), 0);
    EXPECT_NE(::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 &&
                  descriptor == client.results_descriptor(),
              true);
  }
  const int results = client.results_descriptor();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, results, 0), MAP_FAILED);
  const std::string again = "/proc/self/fd/" + std::to_string(results);
  const UniqueFd reopened(::open(again.c_str(), O_RDWR | O_CLOEXEC));
  if (reopened) {
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened.get(), 0),
              MAP_FAILED);
    EXPECT_LT(::pwrite(reopened.get(), "x", 1, 0), 0);
  }
  ExpectServesOthers();
}

TEST_F(HostileClientTest, AFloodOfDoorbellsDoesNotStopOtherClients) {
  RawClient client = Raw();
  std::atomic<bool> stop = false;
  std::thread flooder([&] {
    const std::vector<std::byte> bells(64 << 10, std::byte{1});
    while (!stop)
      (void)::send(client.socket(), bells.data(), bells.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
  for (int i = 0; i < 20; ++i) ExpectServesOthers();
  stop = true;
  flooder.join();
}

TEST_F(HostileClientTest, AClientThatNeverReadsStallsOnlyItself) {
  RawClient client = Raw();
  ASSERT_TRUE(client.Submit(SubmissionOf(Verb::kCreate, 1)));
  const auto created = client.Wait(kSoon);
  ASSERT_TRUE(created);
  // Submits until 100 attempts have failed. The client reads no completions, so the completion ring
  // becomes full and then the submission ring.
  std::uint64_t sent = 0;
  for (int refusals = 0; refusals < 100;) {
    wire::Submission submission = SubmissionOf(sent % 3 == 0 ? Verb::kInfo : Verb::kPing, sent + 2);
    const std::vector<std::byte> payload(sent % 3 == 0 ? 0 : 4096);
    if (client.Submit(submission, payload)) {
      ++sent;
      refusals = 0;
    } else {
      ++refusals;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }
  EXPECT_GT(sent, 512u) << "the completion ring alone holds that many";
  ExpectServesOthers();
  // The daemon continues to send answers when the client reads completions again.
  std::uint64_t answers = 0;
  while (const auto completion = client.Wait(answers < sent ? kSoon : 50)) {
    EXPECT_EQ(completion->request, answers + 2) << "in order";
    client.channel().completions().Release(*completion);
    client.Ring();
    ++answers;
  }
  EXPECT_EQ(answers, sent);
}

TEST_F(HostileClientTest, AClientThatNeverReleasesStallsOnlyItself) {
  const Client hoarder = Connect();
  auto sequence = hoarder.NewSequence();
  ASSERT_TRUE(sequence);
  const std::vector<TokenId> tokens(2000, 7);
  auto decoding = sequence->StartDecode(tokens, Pos{0}, wire::LogitsWanted::kAll);
  ASSERT_TRUE(decoding);
  std::vector<Logits> held;
  for (;;) {
    // On a slow machine, the first piece of the decode's answer may take longer than a second. If
    // no further piece of the answer arrives within a second, the daemon waits for the client to
    // release outputs.
    auto piece = decoding->Next(std::chrono::milliseconds(held.empty() ? kSoon : 1000));
    if (!piece) {
      EXPECT_EQ(piece.error().code, Code::kTimeout) << piece.error().message;
      break;
    }
    const bool more = piece->has_more();
    held.push_back(std::move(*piece));
    if (!more) break;
  }
  ASSERT_FALSE(held.empty());
  EXPECT_TRUE(held.back().has_more()) << "2000 rows of 1024 floats do not fit 4 MiB";
  ExpectServesOthers();
  std::size_t rows = 0;
  for (const Logits& piece : held) rows += piece.row_count();
  held.clear();
  for (bool more = true; more;) {
    auto piece = decoding->Next(std::chrono::milliseconds(kSoon));
    ASSERT_TRUE(piece) << piece.error().message;
    EXPECT_EQ(piece->row_first(), rows);
    rows += piece->row_count();
    more = piece->has_more();
  }
  EXPECT_EQ(rows, 2000u);
}

TEST_F(HostileClientTest, MoreConnectionsThanAllowedAreRefusedAndFreedAgain) {
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < 400; ++i) {
    UniqueFd socket = ConnectRaw(socket_path());
    if (socket) sockets.push_back(std::move(socket));
  }
  wire::Welcome welcome{};
  ASSERT_EQ(::recv(sockets.back().get(), &welcome, sizeof welcome, MSG_WAITALL), sizeof welcome);
  EXPECT_EQ(static_cast<Code>(welcome.code), Code::kNoSpace);
  EXPECT_THAT(welcome.message, HasSubstr("connections"));
  sockets.clear();
  // The daemon accepts connections again a short time after the sockets are closed.
  for (int i = 0; i < kSoon / 10 && !RawClient::Connect(socket_path()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ExpectSessions(1);
  ExpectServesOthers();
}

TEST_F(HostileClientTest, SequencesOfAKilledClientAreDroppedWithoutEffectOnOthers) {
  const Client other = Connect();
  auto kept = other.NewSequence();
  ASSERT_TRUE(kept);
  const std::uint32_t before = Info().sequences_live;
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto client = RawClient::Connect(socket_path());
      if (!client) ::_exit(1);
      for (std::uint64_t request = 1; request < 1000; ++request) {
        (void)client->Submit(SubmissionOf(Verb::kCreate, request));
      }
      for (;;) ::pause();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ExpectSessions(2);
  EXPECT_EQ(Info().sequences_live, before);
  EXPECT_TRUE(kept->Query());
  ExpectServesOthers();
}

TEST_F(HostileClientTest, HandlesAndRequestsOfAnotherSessionAreOutOfReach) {
  const Client victim = Connect();
  auto sequence = victim.NewSequence();
  ASSERT_TRUE(sequence);
  const Client thief = Connect();
  EXPECT_EQ(thief.Clear(sequence->handle()).error().code, Code::kPermission);
  EXPECT_EQ(thief.Drop(sequence->handle()).error().code, Code::kPermission);
  EXPECT_EQ(thief.Keep(sequence->handle()).error().code, Code::kPermission);
  const std::vector<TokenId> prompt = {1, 2, 3};
  auto generation =
      sequence->Generate({.tokens = prompt, .predict_max = 64, .flags = wire::kIgnoreEos});
  ASSERT_TRUE(generation);
  const auto cancelled = thief.Cancel(generation->request());
  ASSERT_TRUE(cancelled);
  EXPECT_FALSE(*cancelled) << "request ids are each session's own";
  for (;;) {
    auto piece = generation->Next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (!*piece) break;
  }
  ExpectServesOthers();
}

// Starts a daemon as uid 65534 and tries to open its memory and descriptors in /proc from a process
// of the same uid. Returns 0 if both the memory and the descriptors are refused, 1 if one of them
// can be opened, 2 or 3 if the test cannot run.
int LookIntoOwnDaemon() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 2;
  auto daemon = DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = {"-c", "64"}});
  if (!daemon) return 3;
  const std::string folder = "/proc/" + std::to_string(daemon->pid());
  const UniqueFd memory(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd descriptor(::open((folder + "/fd/0").c_str(), O_RDONLY | O_CLOEXEC));
  return memory || descriptor ? 1 : 0;
}

TEST(OwnDaemonTest, MemoryAndDescriptorsAreClosedToOtherProcessesOfItsUid) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(LookIntoOwnDaemon());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kvd
