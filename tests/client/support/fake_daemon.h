// FakeDaemon: a daemon without an engine, in threads of the test: it shakes hands and answers as
// the test says. What is not scripted is answered by DefaultAnswer.
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

#include "client/handshake.h"
#include "shm/channel.h"
#include "shm/unique_fd.h"

namespace kvd {

// One client, as a handler sees it. Its thread alone uses it.
class FakeSession {
 public:
  FakeSession(DaemonChannel channel, UniqueFd socket);

  struct Values {
    std::uint64_t sequence = 0;
    std::int64_t value0 = 0;
    std::int64_t value1 = 0;
  };
  // Pieces and the last answer; both wait for room as a daemon's engine would not.
  void More(const wire::Submission& to, std::span<const std::byte> output, Values values);
  void Final(const wire::Submission& to, std::span<const std::byte> output, Values values);
  void Fail(const wire::Submission& to, Code code, std::string_view message);
  // Closes the socket, as a killed daemon's kernel would.
  void HangUp();
  void Publish();

  DaemonChannel& channel() { return channel_; }
  int socket() const { return socket_.get(); }

  std::vector<wire::Submission> held;  // for handlers that answer later
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
  // True: answered (or held); false: DefaultAnswer is asked.
  using Handler = std::function<bool(FakeSession&, const ReceivedSubmission&)>;
  // Spoils the welcome, or the descriptors' count.
  using WelcomeHook = std::function<void(wire::Welcome&, std::vector<int>&)>;

  static constexpr std::uint32_t kVocab = 16;

  explicit FakeDaemon(Handler handler = {}, WelcomeHook welcome_hook = {});
  ~FakeDaemon();

  std::string socket_path() const { return directory_ + "/fake.sock"; }
  ConnectOptions options() const;
  // Hangs up on that many of the next connections before it has said welcome.
  void HangUpFirst(int connections) { hang_ups_left_ = connections; }
  int accepted_count() const { return accepted_count_; }
  // Every session's socket goes away.
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
