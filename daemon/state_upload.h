// StateUpload: a saved state that a client uploads in pieces.
//
// Pieces are stored as they arrive, so that adding a piece does not copy the earlier pieces; only
// small pieces are merged. A StateUpload is movable and is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/work_control.h"
#include "daemon/shares.h"

namespace kvd {

class StateUpload {
 public:
  StateUpload() = default;
  explicit StateUpload(Share share) : share_(std::move(share)) {}

  std::uint64_t byte_count() const { return byte_count_; }

  // Adds a piece at the end of the upload. Error: kNoSpace (the owner's share); the error leaves
  // the upload unchanged.
  Status Append(std::vector<std::byte> piece);

  // Returns the whole state and frees the pieces. Errors: kCancelled.
  Result<std::vector<std::byte>> Join(WorkControl& work);

 private:
  static constexpr std::size_t kPieceBytes = 1 << 20;  // pieces of fewer bytes are merged

  std::vector<std::vector<std::byte>> pieces_;
  std::uint64_t byte_count_ = 0;
  Share share_;
};

}  // namespace kvd
