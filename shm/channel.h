// DaemonChannel and ClientChannel: the two mapped segments of one client, with the ends of the
// rings that each side uses.
//
// Owner: a session in the daemon, a connection in the client. A DaemonChannel or ClientChannel is
// used by one thread at a time. The daemon creates the segments, never maps a descriptor that a
// client sent, and maps `requests` read-only.
#pragma once

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/channel_geometry.h"
#include "shm/request_channel.h"
#include "shm/result_channel.h"
#include "shm/shared_memory.h"

namespace kvd {

class DaemonChannel {
 public:
  SubmissionConsumer& submissions() { return submissions_; }
  CompletionProducer& completions() { return completions_; }
  const ChannelGeometry& geometry() const { return geometry_; }

  // Prepares the daemon to sleep: sets the sleep flag, then checks the rings once more. Returns
  // true if there is no work: the daemon may then sleep, and the client rings the doorbell when it
  // submits. `stalled`: an answer waits for a completion slot or output space, so the client also
  // rings the doorbell when it reads completions or releases output. Returns false if there is
  // work; PrepareToSleep has then cleared the sleep flag again. The first `submissions_seen`
  // waiting submissions do not count as work, because the caller has seen these submissions and
  // cannot take them yet. Errors: as for SubmissionConsumer::Waiting and
  // CompletionProducer::Refresh.
  Result<bool> PrepareToSleep(bool stalled, std::uint32_t submissions_seen = 0);
  // Clears the sleep flag: the client sends no doorbells until the next PrepareToSleep.
  void WakeUp();

 private:
  friend Result<struct CreatedChannel> CreateChannel(const ChannelGeometry&, std::string_view);
  DaemonChannel(Mapping<kReadOnly> requests, Mapping<kReadWrite> results,
                const ChannelGeometry& geometry);

  Mapping<kReadOnly> requests_;
  Mapping<kReadWrite> results_;
  ChannelGeometry geometry_;
  SubmissionConsumer submissions_;
  CompletionProducer completions_;
};

// A new channel and the descriptors to send with Welcome, in this order: requests, results. The
// daemon closes the descriptors of a CreatedChannel after sending them.
struct CreatedChannel {
  DaemonChannel channel;
  std::array<UniqueFd, 2> descriptors;
};

// Creates the segments. `name` appears in /proc/PID/maps of both processes. Errors:
// kInvalidArgument (ValidateGeometry), kIo, kNoSpace.
Result<CreatedChannel> CreateChannel(const ChannelGeometry& geometry, std::string_view name);

class ClientChannel {
 public:
  // Checks seals and sizes of the received descriptors, maps them, and checks their headers against
  // `geometry`. Errors: kCorrupt (the segments do not match Welcome), kIo, kNoSpace.
  static Result<ClientChannel> Attach(const ChannelGeometry& geometry, int requests_descriptor,
                                      int results_descriptor);

  SubmissionProducer& submissions() { return submissions_; }
  CompletionConsumer& completions() { return completions_; }
  const CompletionConsumer& completions() const { return completions_; }
  const ChannelGeometry& geometry() const { return geometry_; }

 private:
  ClientChannel(Mapping<kReadWrite> requests, Mapping<kReadOnly> results,
                const ChannelGeometry& geometry);

  Mapping<kReadWrite> requests_;
  Mapping<kReadOnly> results_;
  ChannelGeometry geometry_;
  SubmissionProducer submissions_;
  CompletionConsumer completions_;
};

}  // namespace kvd
