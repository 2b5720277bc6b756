// Generation: a generate request in flight, whose pieces are read where the daemon wrote them.
//
// A Generation is move-only and keeps its session alive. The destructor cancels the request if the
// request has not ended. One thread at a time uses a Generation; only Cancel may be called from any
// thread.
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "client/connection.h"
#include "client/logits.h"
#include "client/types.h"

namespace kvd {

class Generation {
 public:
  Generation(std::shared_ptr<Connection> connection, RequestId request)
      : connection_(std::move(connection)), request_(request) {}
  Generation(Generation&&) noexcept = default;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  RequestId request() const { return request_; }

  // Returns the next piece, whose views are valid until the next call, or nullopt if the generation
  // has ended: then result() has the result. Errors: those of the generation (kInvalidArgument,
  // kNotFound, kNoSpace, kBusy, kNumerical, kConflict, kCancelled, kNoTokenizer), kTimeout (wait
  // again), kDisconnected, kCorrupt.
  Result<std::optional<wire::PieceView>> Next(Connection::Timeout timeout);
  Result<std::optional<wire::PieceView>> Next() { return Next(connection_->call_timeout()); }

  // Cancels the request: Next returns the remaining pieces, then kCancelled. Committed tokens stay.
  void Cancel();

  // Returns the result of the generation. REQUIRES: Next returned nullopt.
  const wire::GenerateResult& result() const { return result_; }

 private:
  std::shared_ptr<Connection> connection_;
  // The request's id; never changed after construction, because other threads may call Cancel.
  RequestId request_{};
  bool is_over_ = false;
  HeldOutput output_;
  wire::GenerateResult result_{};
};

}  // namespace kvd
