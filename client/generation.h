// Generation: a generate in flight, read piece by piece where the daemon wrote them.
//
// Move-only; keeps its session alive; destroying it before its end cancels it. One thread at a
// time, but Cancel may come from any thread.
#pragma once

#include <memory>
#include <optional>

#include "client/connection.h"
#include "client/logits.h"
#include "client/types.h"
#include "shm/error.h"

namespace kvd {

class Generation {
 public:
  Generation(std::shared_ptr<Connection> connection, RequestId request)
      : connection_(std::move(connection)), request_(request) {}
  Generation(Generation&&) noexcept = default;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  RequestId request() const { return request_; }

  // The next piece; its views are valid until the next call. nullopt: it has ended, see result().
  // Errors: the generation's (kInvalidArgument, kNotFound, kNoSpace, kBusy, kNumerical, kConflict,
  // kCancelled, kNoTokenizer), kTimeout (wait again), kDisconnected, kCorrupt.
  Result<std::optional<wire::PieceView>> Next(Connection::Timeout timeout);
  Result<std::optional<wire::PieceView>> Next() { return Next(connection_->call_timeout()); }

  // Ends it: Next then returns what was made before, and kCancelled. What is committed stays.
  void Cancel();

  // What it did. REQUIRES: Next returned nullopt.
  const wire::GenerateResult& result() const { return result_; }

 private:
  std::shared_ptr<Connection> connection_;
  RequestId request_{};  // stays what it is, for Cancel from other threads
  bool is_over_ = false;
  HeldOutput output_;
  wire::GenerateResult result_{};
};

}  // namespace kvd
