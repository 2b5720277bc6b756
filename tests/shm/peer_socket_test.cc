// Tests Unix sockets: addresses, descriptor passing, doorbells and credentials.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "shm/peer_socket.h"
#include "shm/socket_address.h"

namespace kvd {
namespace {

struct SocketPair {
  SocketPair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  UniqueFd a, b;
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvd-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sets an environment variable for one test; a null value unsets it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    had_ = std::getenv(name) != nullptr;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~ScopedVariable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_;
};

TEST(SocketAddressTest, BadPathsAreNamed) {
  EXPECT_TRUE(MakeSocketAddress("/tmp/x.sock"));
  EXPECT_TRUE(MakeSocketAddress(std::string(107, 'p')));
  const auto too_long = MakeSocketAddress(std::string(108, 'p'));
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("108 bytes, at most 107"), std::string::npos);
  EXPECT_FALSE(MakeSocketAddress(""));
  EXPECT_FALSE(MakeSocketAddress(std::string_view("\0abstract", 9)));
}

TEST(SocketAddressTest, TheDefaultPathFollowsTheRules) {
  const ScopedVariable temporary("TMPDIR", "/var/tmp");
  {
    const ScopedVariable runtime("XDG_RUNTIME_DIR", "/run/user/7");
    EXPECT_EQ(DefaultSocketPath("x").value(), "/run/user/7/kvd/x.sock");
  }
  for (const char* useless : {static_cast<const char*>(nullptr), "", "relative"}) {
    const ScopedVariable runtime("XDG_RUNTIME_DIR", useless);
    EXPECT_EQ(DefaultSocketPath("x").value(),
              ::geteuid() == 0 ? "/run/kvd/x.sock"
                               : "/var/tmp/kvd-" + std::to_string(::geteuid()) + "/x.sock");
  }
  EXPECT_FALSE(DefaultSocketPath("../x"));
}

TEST(SocketAddressTest, TheClientUsesTheExplicitPathThenTheVariableThenTheDefault) {
  const TemporaryDirectory directory;
  const ScopedVariable runtime("XDG_RUNTIME_DIR", directory.path().c_str());
  const ScopedVariable variable("KVD_SOCKET", "/from/variable");
  EXPECT_EQ(ClientSocketPath("/explicit", "").value(), "/explicit");
  EXPECT_EQ(ClientSocketPath("", "").value(), "/from/variable");
  EXPECT_EQ(ClientSocketPath("", "other").value(), directory / "kvd/other.sock");
  const ScopedVariable unset("KVD_SOCKET", nullptr);
  EXPECT_EQ(ClientSocketPath("", "").value(), directory / "kvd/default.sock");
}

TEST(SocketAddressTest, OnlyAPrivateDirectoryIsTrusted) {
  const TemporaryDirectory directory;
  const std::string socket_path = directory / "kvd/default.sock";
  EXPECT_EQ(CheckSocketDirectory(socket_path).error().code, Code::kNotFound);
  ASSERT_TRUE(PrepareSocketDirectory(socket_path));
  ASSERT_TRUE(PrepareSocketDirectory(socket_path));
  struct stat status;
  ASSERT_EQ(::stat((directory / "kvd").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  for (const mode_t mode : {0755u, 0777u, 0720u, 0701u}) {
    ::chmod((directory / "kvd").c_str(), mode);
    EXPECT_EQ(CheckSocketDirectory(socket_path).error().code, Code::kPermission) << mode;
  }
  ::chmod((directory / "kvd").c_str(), 0710);
  EXPECT_TRUE(CheckSocketDirectory(socket_path));
  ASSERT_EQ(::symlink((directory / "kvd").c_str(), (directory / "link").c_str()), 0);
  EXPECT_EQ(CheckSocketDirectory(directory / "link/default.sock").error().code, Code::kPermission);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((directory / "kvd").c_str(), 1234, 1234), 0);
    EXPECT_EQ(CheckSocketDirectory(socket_path).error().code, Code::kPermission);
    const ScopedVariable runtime("XDG_RUNTIME_DIR", directory.path().c_str());
    const ScopedVariable unset("KVD_SOCKET", nullptr);
    EXPECT_EQ(ClientSocketPath("", "").error().code, Code::kPermission);
  }
}

// The test runs in a child process of another uid without a runtime directory, so that the socket
// is in a shared directory.
TEST(SocketAddressTest, ADirectoryOfAnotherUserIsNoObstacleToDaemonAndClient) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const TemporaryDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 01777), 0);
  const ScopedVariable runtime("XDG_RUNTIME_DIR", nullptr);
  const ScopedVariable variable("KVD_SOCKET", nullptr);
  const ScopedVariable temporary("TMPDIR", directory.path().c_str());
  const std::string taken = directory / "kvd-54321";
  ASSERT_EQ(::mkdir(taken.c_str(), 0700), 0);  // the directory belongs to another uid
  ASSERT_EQ(::chown(taken.c_str(), 12345, 12345), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(54321) != 0 || ::setuid(54321) != 0) ::_exit(1);
    // Before the daemon has created its directory, the client gets an error.
    const auto before = ClientSocketPath("", "");
    if (before || before.error().code != Code::kPermission) ::_exit(2);
    const auto made = MakeDefaultSocketPath("default");
    if (!made || !made->starts_with(taken + "-")) ::_exit(3);
    if (!PrepareSocketDirectory(*made)) ::_exit(4);
    if (MakeDefaultSocketPath("default").value_or("") != *made) ::_exit(5);
    if (ClientSocketPath("", "").value_or("") != *made) ::_exit(6);
    // If the uid has two directories, the client uses the one with the socket.
    const std::string other = taken + "-0000000000000000";
    if (::mkdir(other.c_str(), 0700) != 0) ::_exit(7);
    UniqueFd socket(::open(made->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (ClientSocketPath("", "").value_or("") != *made) ::_exit(8);
    if (ClientSocketPath("", "x").value_or("") != other + "/x.sock") ::_exit(9);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FdPassingTest, DescriptorsArriveWithTheBytes) {
  const SocketPair sockets;
  const SocketPair passed;
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  const int descriptors[] = {passed.a.get(), passed.b.get()};
  ASSERT_TRUE(SendWithDescriptors(sockets.a.get(), sent, descriptors));
  std::array<std::byte, 3> received{};
  const auto got = ReceiveWithDescriptors(sockets.b.get(), received, std::chrono::seconds(5));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(received, sent);
  ASSERT_EQ(got->size(), 2u);
  EXPECT_NE(::fcntl((*got)[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::write((*got)[0].get(), "x", 1), 1);
}

TEST(FdPassingTest, BytesInSeveralPartsAreOneMessage) {
  const SocketPair sockets;
  std::array<std::byte, 100> received{};
  std::thread sender([&] {
    const std::array<std::byte, 50> half{};
    const int descriptors[] = {sockets.a.get()};
    EXPECT_TRUE(SendWithDescriptors(sockets.a.get(), half, descriptors));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(SendWithDescriptors(sockets.a.get(), half, {}));
  });
  const auto got = ReceiveWithDescriptors(sockets.b.get(), received, std::chrono::seconds(5));
  sender.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size(), 1u);
}

TEST(FdPassingTest, TooManyDescriptorsAreRefusedAndClosed) {
  const SocketPair sockets;
  const std::array<std::byte, 1> sent{};
  const std::vector<int> nine(9, sockets.a.get());
  EXPECT_EQ(SendWithDescriptors(sockets.a.get(), sent, nine).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SendWithDescriptors(sockets.a.get(), {}, {}).error().code, Code::kInvalidArgument);
  const std::vector<int> eight(8, sockets.a.get());
  ASSERT_TRUE(SendWithDescriptors(sockets.a.get(), sent, eight));
  ASSERT_TRUE(SendWithDescriptors(sockets.a.get(), sent, eight));
  const int next_free = ::dup(0);
  ::close(next_free);
  std::array<std::byte, 2> received{};
  const auto got = ReceiveWithDescriptors(sockets.b.get(), received, std::chrono::seconds(5));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kCorrupt);
  const int still_free = ::dup(0);
  ::close(still_free);
  EXPECT_EQ(still_free, next_free);
}

TEST(FdPassingTest, SilenceTimesOutAndAHangUpIsReported) {
  SocketPair sockets;
  std::array<std::byte, 2> received{};
  EXPECT_EQ(
      ReceiveWithDescriptors(sockets.b.get(), received, std::chrono::milliseconds(10)).error().code,
      Code::kTimeout);
  sockets.a.reset();
  EXPECT_EQ(ReceiveWithDescriptors(sockets.b.get(), received, std::chrono::seconds(5)).error().code,
            Code::kDisconnected);
  EXPECT_EQ(SendWithDescriptors(sockets.b.get(), received, {}).error().code, Code::kDisconnected);
}

TEST(FdPassingTest, APeerThatReadsNothingIsBusy) {
  const SocketPair sockets;
  const std::vector<std::byte> much(16u << 20);
  EXPECT_EQ(SendWithDescriptors(sockets.a.get(), much, {}).error().code, Code::kBusy);
}

TEST(DoorbellTest, ABellWakesTheSleepingSide) {
  const SocketPair sockets;
  EXPECT_FALSE(WaitDoorbell(sockets.b.get(), std::chrono::milliseconds(5)).value());
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(RingDoorbell(sockets.a.get()));
  });
  EXPECT_TRUE(WaitDoorbell(sockets.b.get(), std::chrono::nanoseconds(-1)).value());
  ringer.join();
  EXPECT_TRUE(RingDoorbell(sockets.a.get()));
  EXPECT_TRUE(WaitDoorbell(sockets.b.get(), std::chrono::seconds(5)).value());
  EXPECT_FALSE(WaitDoorbell(sockets.b.get(), std::chrono::nanoseconds(0)).value());
}

TEST(DoorbellTest, AFullBufferIsNoError) {
  const SocketPair sockets;
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(RingDoorbell(sockets.a.get()));
  EXPECT_TRUE(DrainDoorbell(sockets.b.get()));
  EXPECT_FALSE(WaitDoorbell(sockets.b.get(), std::chrono::nanoseconds(0)).value());
}

TEST(DoorbellTest, AHangUpIsNoticedByEachCall) {
  SocketPair sockets;
  sockets.a.reset();
  EXPECT_EQ(RingDoorbell(sockets.b.get()).error().code, Code::kDisconnected);
  EXPECT_EQ(DrainDoorbell(sockets.b.get()).error().code, Code::kDisconnected);
  EXPECT_EQ(WaitDoorbell(sockets.b.get(), std::chrono::nanoseconds(-1)).error().code,
            Code::kDisconnected);
  EXPECT_EQ(WaitDoorbell(sockets.b.get(), std::chrono::seconds(5)).error().code,
            Code::kDisconnected);
  EXPECT_EQ(RingDoorbell(-1).error().code, Code::kIo);
}

TEST(DoorbellTest, DescriptorsSmuggledWithABellAreDropped) {
  const SocketPair sockets;
  const std::array<std::byte, 1> bell{};
  const int smuggled[] = {sockets.a.get()};
  ASSERT_TRUE(SendWithDescriptors(sockets.a.get(), bell, smuggled));
  const int next_free = ::dup(0);
  ::close(next_free);
  EXPECT_TRUE(DrainDoorbell(sockets.b.get()));
  const int still_free = ::dup(0);
  ::close(still_free);
  EXPECT_EQ(still_free, next_free);
}

TEST(PeerCredentialsTest, ThePeerIsThisProcess) {
  const SocketPair sockets;
  const auto peer = ReadPeerCredentials(sockets.a.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(ReadPeerCredentials(-1).error().code, Code::kIo);
}

}  // namespace
}  // namespace kvd
