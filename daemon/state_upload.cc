#include "daemon/state_upload.h"

namespace kvd {

Status StateUpload::Append(std::vector<std::byte> piece) {
  KVD_CHECK_OK(share_.Grow(piece.size()));
  byte_count_ += piece.size();
  const bool joins = !pieces_.empty() && pieces_.back().size() + piece.size() <= kPieceBytes;
  if (joins) {
    pieces_.back().insert(pieces_.back().end(), piece.begin(), piece.end());
  } else {
    pieces_.push_back(std::move(piece));
  }
  return {};
}

Result<std::vector<std::byte>> StateUpload::Join(WorkControl& work) {
  std::vector<std::byte> file;
  if (pieces_.size() == 1) {
    file = std::move(pieces_.front());
  } else {
    file.reserve(byte_count_);
    for (std::vector<std::byte>& piece : pieces_) {
      KVD_CHECK_OK(work.Continue());
      file.insert(file.end(), piece.begin(), piece.end());
      piece = {};
    }
  }
  pieces_.clear();
  return file;
}

}  // namespace kvd
