// Logits: rows of a decode, read where the daemon wrote them; and Generation: a running generate.
//
// Move-only; each keeps its session alive. What they show lies in the session's output arena: rows
// and pieces that are not given back take room from the later answers of this session, and of it
// alone. One thread at a time each; different objects may be used by different threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "client/connection.h"
#include "client/types.h"
#include "shm/error.h"

namespace kvd {

// Gives its piece of the output arena back when it goes. Internal to Logits and Generation.
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
  // The caller releases it.
  std::uint64_t Take() { return std::exchange(ticket_, 0); }

 private:
  std::shared_ptr<Connection> connection_;
  std::uint64_t ticket_ = 0;
};

// The answer to a decode, or a piece of it.
class Logits {
 public:
  // [row_count, vocab_size] of this piece; valid until the Logits is destroyed or moved into.
  std::span<const float> values() const { return values_; }
  std::span<const float> row(std::size_t index) const {
    return values_.subspan(index * row_floats_, row_floats_);
  }
  std::size_t row_count() const { return row_floats_ == 0 ? 0 : values_.size() / row_floats_; }
  std::uint64_t row_first() const { return row_first_; }    // of the decode's rows, that row(0) is
  std::uint64_t cell_count() const { return cell_count_; }  // computed by now
  bool has_more() const { return has_more_; }
  // What the prompt took from other sequences.
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

// A decode in flight. Destroying it before its last piece cancels it.
class Decoding {
 public:
  Decoding(std::shared_ptr<Connection> connection, RequestId request)
      : connection_(std::move(connection)), request_(request) {}
  Decoding(Decoding&&) noexcept = default;
  Decoding& operator=(Decoding&& other) noexcept;
  ~Decoding();

  RequestId request() const { return request_; }
  // Waits for the next piece. Errors: the decode's (kInvalidArgument, kNotFound, kNoSpace, kBusy,
  // kNumerical, kConflict, kCancelled), kTimeout (wait again), kDisconnected, kCorrupt.
  Result<Logits> Next(Connection::Timeout timeout);
  Result<Logits> Next() { return Next(connection_->call_timeout()); }
  // The request continues and is known by its id alone.
  RequestId Detach() { return std::exchange(request_, RequestId{}); }

  // One step for callers that keep the id themselves (kvd.h).
  static Result<Logits> NextOf(const std::shared_ptr<Connection>& connection, RequestId request,
                               Connection::Timeout timeout);

 private:
  std::shared_ptr<Connection> connection_;
  RequestId request_{};
};

}  // namespace kvd
