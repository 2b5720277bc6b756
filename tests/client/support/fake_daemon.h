// FakeDaemon: a daemon without an engine that runs in threads of the test. FakeDaemon performs the
// handshake and passes each request to the test's handler; DefaultAnswer answers the requests that
// the handler does not answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "client/handshake.h"
#include "shm/channel.h"

namespace kvd {

// The fake daemon's side of one connected client, passed to handlers. Only the thread that serves
// the client uses this object.
class FakeSession {
 public:
  FakeSession(DaemonChannel channel, UniqueFd socket);

  struct Values {
    std::uint64_t sequence = 0;
    std::int64_t value0 = 0;
    std::int64_t value1 = 0;
    std::int64_t value2 = 0;
  };
  // Send one piece of the answer, the final answer, or a final error. More, Final and Fail wait
  // until the completion ring and the output arena have room; the real daemon's engine thread does
  // not wait.
  void More(const wire::Submission& to, std::span<const std::byte> output, Values values);
  void Final(const wire::Submission& to, std::span<const std::byte> output, Values values);
  void Fail(const wire::Submission& to, Code code, std::string_view message);
  // Shuts the socket down, as the kernel does when a daemon is killed.
  void HangUp();
  void Publish();

  DaemonChannel& channel() { return channel_; }
  int socket() const { return socket_.get(); }

  std::vector<wire::Submission> held;  // requests that a handler answers later
  std::uint64_t next_handle = 100;

 private:
  bool WaitForRoom(std::size_t output_bytes);
  void Write(const wire::Submission& to, Code code, bool is_final,
             std::span<const std::byte> output, Values values);

  DaemonChannel channel_;
  UniqueFd socket_;
};

void DefaultAnswer(FakeSession& session, const ReceivedSubmission& received);

class FakeDaemon {
 public:
  // Returns true if it has answered the request or put it into `held`; false: DefaultAnswer
  // answers.
  using Handler = std::function<bool(FakeSession&, const ReceivedSubmission&)>;
  // Changes the welcome message or the list of descriptors before they are sent.
  using WelcomeHook = std::function<void(wire::Welcome&, std::vector<int>&)>;

  static constexpr std::uint32_t kVocab = 16;

  explicit FakeDaemon(Handler handler = {}, WelcomeHook welcome_hook = {});
  ~FakeDaemon();

  std::string socket_path() const { return directory_ + "/fake.sock"; }
  ConnectOptions options() const;
  // Closes the next `connections` connections before a welcome is sent.
  void HangUpFirst(int connections) { hang_ups_left_ = connections; }
  int accepted_count() const { return accepted_count_; }
  // Shuts down the sockets of all sessions.
  void Die();

 private:
  void Accept();
  void Serve(int socket);

  Handler handler_;
  WelcomeHook welcome_hook_;
  std::string directory_;
  UniqueFd listener_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<int> hang_ups_left_ = 0;
  std::atomic<int> accepted_count_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;          // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace kvd
