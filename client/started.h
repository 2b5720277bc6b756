// Started: a submitted request of any verb, typed by its arguments.
//
// A Started is move-only and keeps its session alive. The destructor cancels the request if the
// request has not ended. A Started is used by one thread at a time. In an event loop, use
// Connection::OpenEventDescriptor and WaitAny with request().
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "client/connection.h"
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
  // Waits for the answer. Errors: those of the verb, which end the request; kTimeout (wait again).
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
  // Returns the request id for Connection::Finish; the destructor then does not cancel the request.
  RequestId Detach() { return std::exchange(request_, RequestId{}); }

 private:
  std::shared_ptr<Connection> connection_;
  RequestId request_{};
};

}  // namespace kvd
