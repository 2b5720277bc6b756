// Requests in flight: any verb (Started), a decode with its logits (Decoding, Logits), and a
// generate request (Generation).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "client/connection.h"
#include "client/types.h"
#include "shm/verb_table.h"

namespace kvd {

// Started: a submitted request of any verb, typed by its arguments.
//
// A Started is move-only and keeps its session alive. The destructor cancels the request if the
// request has not ended. A Started is used by one thread at a time. In an event loop, use
// Connection::OpenEventDescriptor and WaitAny with request().
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

// Logits: rows of logits of a decode, read in the shared memory where the daemon wrote them.
// Decoding: a decode in flight.
//
// Logits and Decoding are move-only and keep their session alive. The rows lie in the session's
// output arena: rows that are not released leave less room for later answers of this session; other
// sessions are not affected. One thread at a time may use a Logits or a Decoding; different threads
// may use different objects.

// HeldOutput owns one output and releases it on destruction. HeldOutput is internal to Logits and
// Generation.
class HeldOutput {
 public:
  HeldOutput() = default;
  HeldOutput(std::shared_ptr<Connection> connection, std::uint64_t ticket)
      : connection_(std::move(connection)), ticket_(ticket) {}
  HeldOutput(HeldOutput&& other) noexcept
      : connection_(std::move(other.connection_)), ticket_(std::exchange(other.ticket_, 0)) {}
  HeldOutput& operator=(HeldOutput&& other) noexcept {
    if (this == &other) return *this;
    reset();
    connection_ = std::move(other.connection_);
    ticket_ = std::exchange(other.ticket_, 0);
    return *this;
  }
  ~HeldOutput() { reset(); }
  void reset() {
    const std::uint64_t ticket = std::exchange(ticket_, 0);
    if (ticket != 0) (void)connection_->Release(ticket);
  }
  // Returns the output's ticket; the caller must then release the output.
  std::uint64_t Take() { return std::exchange(ticket_, 0); }

 private:
  std::shared_ptr<Connection> connection_;
  std::uint64_t ticket_ = 0;
};

// The answer to a decode request, or a piece of that answer.
class Logits {
 public:
  // Returns the rows of this piece, [row_count, vocab_size]; valid until the Logits is destroyed or
  // assigned to.
  std::span<const float> values() const { return values_; }
  std::span<const float> row(std::size_t index) const {
    return values_.subspan(index * row_floats_, row_floats_);
  }
  std::size_t row_count() const { return row_floats_ == 0 ? 0 : values_.size() / row_floats_; }
  // Returns the index of row(0) among all rows of the decode.
  std::uint64_t row_first() const { return row_first_; }
  // Returns the number of cells of the sequence after this piece.
  std::uint64_t cell_count() const { return cell_count_; }
  bool has_more() const { return has_more_; }
  // Returns the prefix that the prompt reused from other sequences.
  const PrefixReuse& reuse() const { return reuse_; }

  std::uint64_t TakeTicket() { return output_.Take(); }  // see HeldOutput::Take

 private:
  friend class Decoding;
  HeldOutput output_;
  std::span<const float> values_;
  std::size_t row_floats_ = 0;
  std::uint64_t row_first_ = 0;
  std::uint64_t cell_count_ = 0;
  bool has_more_ = false;
  PrefixReuse reuse_;
};

// A decode request in flight. The destructor cancels the request if its last piece was not taken.
class Decoding {
 public:
  Decoding(std::shared_ptr<Connection> connection, RequestId request)
      : connection_(std::move(connection)), request_(request) {}
  Decoding(Decoding&&) noexcept = default;
  Decoding& operator=(Decoding&& other) noexcept;
  ~Decoding();

  RequestId request() const { return request_; }
  // Waits for the next piece. Errors: those of the decode (kInvalidArgument, kNotFound, kNoSpace,
  // kBusy, kNumerical, kConflict, kCancelled), kTimeout (wait again), kDisconnected, kCorrupt.
  Result<Logits> Next(Connection::Timeout timeout);
  Result<Logits> Next() { return Next(connection_->call_timeout()); }
  // Returns the request id; the destructor then does not cancel the request.
  RequestId Detach() { return std::exchange(request_, RequestId{}); }

  // Does the same as Next for a caller that has only the request id (kvd.h).
  static Result<Logits> NextOf(const std::shared_ptr<Connection>& connection, RequestId request,
                               Connection::Timeout timeout);

 private:
  std::shared_ptr<Connection> connection_;
  RequestId request_{};
};

// Generation: a generate request in flight, whose pieces are read where the daemon wrote them.
//
// A Generation is move-only and keeps its session alive. The destructor cancels the request if the
// request has not ended. One thread at a time uses a Generation; only Cancel may be called from any
// thread.
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
