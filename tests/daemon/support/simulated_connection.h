// SimulatedConnection: the client's end of one connection in a simulation, as raw as the protocol
// allows: a hello in pieces, its one answer, submissions, completions.
//
// Owner: ServerSimulation. One thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "shm/channel.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/unique_fd.h"
#include "shm/verb_table.h"

namespace kvd::test {

class SimulatedConnection {
 public:
  enum class State : std::uint8_t {
    kGreeting,  // no answer to its hello has come
    kWelcomed,
    kRefused,
    kHungUp,  // by the daemon, after a welcome
  };
  // A submission without a final answer.
  struct Sent {
    wire::Submission submission{};
    std::uint64_t expected = 0;  // what its sender remembers of it
  };
  using Answered = std::function<Status(const Sent&, const wire::Completion&,
                                        std::span<const std::byte> output)>;

  SimulatedConnection(UniqueFd socket, std::uint32_t uid, const wire::Hello& hello);

  // The next bytes of the hello, all that are left at most.
  void SendHello(std::size_t byte_count);
  bool has_said_hello() const { return hello_sent_bytes_ == sizeof hello_; }
  void SayGoodbye();
  // False: the ring or the arena has no room now.
  bool Submit(wire::Submission submission, std::span<const std::byte> payload,
              std::uint64_t expected = 0);
  // Takes everything that the daemon has sent. Errors name the broken promise: no answer to the
  // hello or two, an answer to a request that was not sent here, and what `answered` returns.
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
  std::map<std::uint64_t, Sent> in_flight_;  // by request
};

}  // namespace kvd::test
