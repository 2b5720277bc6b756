// DaemonChannel and ClientChannel: the two segments of one client, mapped, with both ends of the
// rings that lie in them, as each side sees them.
//
// Owner: a session in the daemon, a connection in the client. One thread at a time. The daemon
// creates the segments and never maps a descriptor that a client sent; it maps `requests`
// read-only.
#pragma once

#include <array>
#include <string_view>

#include "shm/channel_geometry.h"
#include "shm/error.h"
#include "shm/mapping.h"
#include "shm/request_channel.h"
#include "shm/result_channel.h"
#include "shm/unique_fd.h"

namespace kvd {

class DaemonChannel {
 public:
  SubmissionConsumer& submissions() { return submissions_; }
  CompletionProducer& completions() { return completions_; }
  const ChannelGeometry& geometry() const { return geometry_; }

  // The sleeper's half of the doorbell protocol: sets the flag and looks once more. False:
  // something waits (the flag is down again), go on working. After a true the client rings when it
  // submits, and if `stalled` (some answer waits for a completion slot or output space) also when
  // it reads or releases. `submissions_seen` of those that wait do not count as something: they were
  // looked at and cannot be taken yet. Errors as SubmissionConsumer::Waiting and
  // CompletionProducer::Refresh.
  Result<bool> PrepareToSleep(bool stalled, std::uint32_t submissions_seen = 0);
  // Takes the flag down: the client sends no doorbells while the daemon looks by itself.
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

// A new channel and the descriptors to send with Welcome, in this order: requests, results. Close
// them once sent.
struct CreatedChannel {
  DaemonChannel channel;
  std::array<UniqueFd, 2> descriptors;
};

// `name` shows in /proc/PID/maps of both. Errors: kInvalidArgument (ValidateGeometry), kIo,
// kNoSpace.
Result<CreatedChannel> CreateChannel(const ChannelGeometry& geometry, std::string_view name);

class ClientChannel {
 public:
  // Checks seals and sizes of received descriptors, maps them, and checks their headers against
  // `geometry`. Errors: kCorrupt (they are not what Welcome said), kIo, kNoSpace.
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
