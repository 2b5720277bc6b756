// Started: a request of any verb that was submitted without waiting, by the type of its arguments.
//
// Move-only; keeps its session alive. Destroying it before its end cancels it. One thread at a time.
// For an event loop: Connection::OpenEventDescriptor and WaitAny with request().
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/verb_table.h"

namespace kvd {

template <wire::VerbArguments Args>
class Started {
 public:
  using Reply = wire::ReplyOf<Args>;

  Started(std::shared_ptr<Connection> connection, RequestId request)
      : connection_(std::move(connection)), request_(request) {}
  Started(Started&& other) noexcept
      : connection_(std::move(other.connection_)),
        request_(std::exchange(other.request_, RequestId{})) {}
  Started& operator=(Started&& other) noexcept {
    std::swap(connection_, other.connection_);
    std::swap(request_, other.request_);
    return *this;
  }
  ~Started() {
    if (request_ != RequestId{}) connection_->Abandon(request_);
  }

  RequestId request() const { return request_; }
  // Waits for the answer. Errors: the verb's, which end it; kTimeout (wait again).
  Result<Reply> Finish(Connection::Timeout timeout) {
    std::vector<std::byte> output;
    const Result<wire::Completion> completion = connection_->Finish(request_, timeout, &output);
    if (!completion && completion.error().code == Code::kTimeout) {
      return std::unexpected(completion.error());
    }
    request_ = RequestId{};
    if (!completion) return std::unexpected(completion.error());
    return wire::ReadReply<Reply>(wire::kRowOf<Args>.name, *completion, output);
  }
  Result<Reply> Finish() { return Finish(connection_->call_timeout()); }
  // The request continues and is known by its id alone (Connection::Finish).
  RequestId Detach() { return std::exchange(request_, RequestId{}); }

 private:
  std::shared_ptr<Connection> connection_;
  RequestId request_{};
};

}  // namespace kvd
