// RawClient: a client that sends messages byte by byte, so that a test can break every rule of the
// protocol.
//
// RawClient maps the segments itself, so that a test can write any field of the request segment.
// One thread uses a RawClient, unless a test states otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "shm/channel.h"
#include "shm/channel_geometry.h"
#include "shm/segment_layout.h"
#include "shm/shared_memory.h"
#include "shm/verb_table.h"

namespace kvd::test {

// Connects a socket to the daemon. If the connection fails, the returned descriptor is invalid.
UniqueFd ConnectRaw(const std::string& socket_path);

wire::Hello GoodHello();

// A submission of the verb without arguments.
wire::Submission SubmissionOf(wire::Verb verb, std::uint64_t request);

class RawClient {
 public:
  // Connects, sends `hello` and reads the welcome, which is copied to `*welcome`. nullopt: the
  // daemon has refused the hello or closed the connection.
  static std::optional<RawClient> Connect(const std::string& socket_path,
                                          const wire::Hello& hello = GoodHello(),
                                          wire::Welcome* welcome = nullptr);

  int socket() const { return socket_.get(); }
  int requests_descriptor() const { return requests_descriptor_.get(); }
  int results_descriptor() const { return results_descriptor_.get(); }
  layout::RequestsHeader& requests_header();
  const layout::ResultsHeader& results_header() const;
  std::span<std::byte> request_bytes() { return requests_.bytes(); }

  // The client's end of the channel, which keeps the rules of the protocol.
  ClientChannel& channel() { return *channel_; }
  // Puts a submission into the ring and rings the doorbell, whether or not the daemon sleeps.
  bool Submit(const wire::Submission& submission, std::span<const std::byte> payload = {});
  // Puts the submission into the ring unchanged, including its payload fields, and rings the
  // doorbell. The caller writes the payload's bytes. REQUIRES: the ring has room; the client does
  // not call Submit.
  void SubmitAsIs(const wire::Submission& submission);
  // The arena in which payloads are placed.
  std::span<std::byte> request_arena();
  void Ring();
  // Returns whether the daemon closes the connection within this time.
  bool HungUpWithin(int milliseconds);
  // Takes the next completion; nullopt: none arrived within this time.
  std::optional<wire::Completion> Wait(int milliseconds);

 private:
  RawClient() = default;

  UniqueFd socket_;
  UniqueFd requests_descriptor_;
  UniqueFd results_descriptor_;
  Mapping<kReadWrite> requests_;
  Mapping<kReadOnly> results_;
  ChannelGeometry geometry_;
  std::optional<ClientChannel> channel_;
};

}  // namespace kvd::test
