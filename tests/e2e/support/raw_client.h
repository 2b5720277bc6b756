// RawClient: a client that speaks the protocol byte by byte, and so can break every rule of it.
//
// What it maps it maps by itself: the fields of both segments are open to any store. One thread,
// unless a test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/channel.h"
#include "shm/channel_geometry.h"
#include "shm/mapping.h"
#include "shm/segment_layout.h"
#include "shm/unique_fd.h"
#include "shm/verb_table.h"

namespace kvd::test {

// A connected socket; kDisconnected-like errors are the test's to see.
UniqueFd ConnectRaw(const std::string& socket_path);

wire::Hello GoodHello();

class RawClient {
 public:
  // Says `hello` and takes what comes. nullopt if the daemon refused or hung up (see `refusal`).
  static std::optional<RawClient> Connect(const std::string& socket_path,
                                          const wire::Hello& hello = GoodHello(),
                                          wire::Welcome* welcome = nullptr);

  int socket() const { return socket_.get(); }
  int requests_descriptor() const { return requests_descriptor_.get(); }
  int results_descriptor() const { return results_descriptor_.get(); }
  layout::RequestsHeader& requests_header();
  const layout::ResultsHeader& results_header() const;
  std::span<std::byte> request_bytes() { return requests_.bytes(); }

  // The rule-abiding way in.
  ClientChannel& channel() { return *channel_; }
  // Puts a submission into the ring and rings, whatever the flag says.
  bool Submit(const wire::Submission& submission, std::span<const std::byte> payload = {});
  // Puts an entry into the ring as it is, its payload fields included, and rings. The bytes of the
  // payload are the caller's to write. REQUIRES: room in the ring; Submit is not used beside it.
  void SubmitAsIs(const wire::Submission& submission);
  // Where payloads lie.
  std::span<std::byte> request_arena();
  void Ring();
  // Whether the daemon hangs up within that time.
  bool HungUpWithin(int milliseconds);
  // The next completion within that time.
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
