#include "client/generation.h"

#include <cstring>
#include <string>
#include <utility>

namespace kvd {

Generation& Generation::operator=(Generation&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(request_, other.request_);
  std::swap(is_over_, other.is_over_);
  std::swap(output_, other.output_);
  std::swap(result_, other.result_);
  return *this;
}

Generation::~Generation() {
  if (connection_ && !is_over_) connection_->Abandon(request_);
}

void Generation::Cancel() { (void)connection_->Cancel(request_); }

Result<std::optional<wire::PieceView>> Generation::Next(Connection::Timeout timeout) {
  output_.reset();
  auto piece = connection_->Next(request_, timeout);
  if (!piece) {
    if (piece.error().code != Code::kTimeout) is_over_ = true;
    return std::unexpected(std::move(piece).error());
  }
  output_ = HeldOutput(connection_, piece->ticket);
  if ((piece->completion.flags & wire::kMore) == 0) {
    is_over_ = true;
    if (piece->output.size() != sizeof result_) {
      return Fail(Code::kCorrupt, "generate result: ", piece->output.size(), " bytes, ",
                  sizeof result_, " expected");
    }
    std::memcpy(&result_, piece->output.data(), sizeof result_);
    output_.reset();
    return std::nullopt;
  }
  // A completion without output has no bytes that could be parsed as a piece.
  if (piece->output.empty()) return Fail(Code::kCorrupt, "piece: 0 bytes");
  KVD_TRY(const wire::PieceView view, wire::ParsePiece(piece->output));
  return view;
}

}  // namespace kvd
