// SimulatedConnection: the client's end of one connection in a simulation. SimulatedConnection
// works directly on the protocol: it can send a hello in parts, reads the one answer to the hello,
// sends submissions and takes completions.
//
// Owner: ServerSimulation. One thread uses a SimulatedConnection; no call blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "shm/channel.h"
#include "shm/verb_table.h"

namespace kvd::test {

class SimulatedConnection {
 public:
  enum class State : std::uint8_t {
    kGreeting,  // the connection's hello has no answer yet
    kWelcomed,
    kRefused,
    kHungUp,  // the daemon has closed it after a welcome
  };
  // A submission without a final answer.
  struct Sent {
    wire::Submission submission{};
    std::uint64_t expected = 0;  // a number from the sender, with which it checks the answer
  };
  using Answered = std::function<Status(const Sent&, const wire::Completion&,
                                        std::span<const std::byte> output)>;

  SimulatedConnection(UniqueFd socket, std::uint32_t uid, const wire::Hello& hello);

  // Sends the next `byte_count` bytes of the hello, or all remaining bytes if there are fewer.
  void SendHello(std::size_t byte_count);
  bool has_said_hello() const { return hello_sent_bytes_ == sizeof hello_; }
  void SayGoodbye();
  // False: the submission ring or the request arena has no room.
  bool Submit(wire::Submission submission, std::span<const std::byte> payload,
              std::uint64_t expected = 0);
  // Reads the answer to the hello and all completions that the daemon has sent, and calls
  // `answered` for each final completion. Errors: a missing or second answer to the hello, an
  // answer to a request that was not sent on this connection, and the errors of `answered`.
  Status Receive(const Answered& answered);

  State state() const { return state_; }
  std::uint32_t uid() const { return uid_; }
  const wire::Hello& hello() const { return hello_; }
  const wire::Welcome& welcome() const { return welcome_; }  // REQUIRES: not kGreeting
  Code code() const { return static_cast<Code>(welcome_.code); }
  const std::map<std::uint64_t, Sent>& in_flight() const { return in_flight_; }

 private:
  Status ReceiveWelcome();
  Status ReceiveBells();
  Status ReceiveCompletions(const Answered& answered);

  const UniqueFd socket_;
  const std::uint32_t uid_;
  const wire::Hello hello_;
  std::size_t hello_sent_bytes_ = 0;
  State state_ = State::kGreeting;
  wire::Welcome welcome_{};
  std::optional<ClientChannel> channel_;
  std::map<std::uint64_t, Sent> in_flight_;  // submissions without a final answer, by request id
};

}  // namespace kvd::test
