// StateUpload: a saved state that a client sends in pieces, until it is whole.
//
// Pieces are kept as they come, so that a new one costs no copy of those before; small ones are put
// together. A value that is moved; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/shares.h"
#include "shm/work_control.h"

namespace kvd {

class StateUpload {
 public:
  StateUpload() = default;
  explicit StateUpload(Share share) : share_(std::move(share)) {}

  std::uint64_t byte_count() const { return byte_count_; }

  // Error: kNoSpace (the owner's share); nothing has changed then.
  Status Append(std::vector<std::byte> piece);

  // The whole state; gives the pieces up. Errors: kCancelled.
  Result<std::vector<std::byte>> Join(WorkControl& work);

 private:
  static constexpr std::size_t kPieceBytes = 1 << 20;  // smaller ones are put together

  std::vector<std::vector<std::byte>> pieces_;
  std::uint64_t byte_count_ = 0;
  Share share_;
};

}  // namespace kvd
