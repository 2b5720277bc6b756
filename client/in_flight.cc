#include "client/in_flight.h"

#include <cstring>
#include <string>
#include <utility>

namespace kvd {

Decoding& Decoding::operator=(Decoding&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(request_, other.request_);
  return *this;
}

Decoding::~Decoding() {
  if (connection_ && request_ != RequestId{}) connection_->Abandon(request_);
}

Result<Logits> Decoding::Next(Connection::Timeout timeout) {
  auto logits = NextOf(connection_, request_, timeout);
  const bool is_over = logits ? !logits->has_more() : logits.error().code != Code::kTimeout;
  if (is_over) request_ = RequestId{};
  return logits;
}

Result<Logits> Decoding::NextOf(const std::shared_ptr<Connection>& connection, RequestId request,
                                Connection::Timeout timeout) {
  KVD_TRY(const Connection::Piece piece, connection->Next(request, timeout));
  Logits logits;
  logits.output_ = HeldOutput(connection, piece.ticket);
  logits.row_floats_ = connection->info().vocab_size;
  // Nothing is copied into this buffer, because the rows stay in the arena.
  std::vector<std::byte> no_copy;
  KVD_TRY(const wire::DecodeReply reply,
          wire::ReadReply<wire::DecodeReply>("decode", piece.completion, no_copy));
  logits.row_first_ = reply.row_first;
  logits.cell_count_ = reply.cells;
  logits.reuse_ = UnpackReuse(reply.reuse);
  logits.has_more_ = (piece.completion.flags & wire::kMore) != 0;
  if (piece.output.size() % (logits.row_floats_ * sizeof(float)) != 0) {
    connection->Abandon(request);
    return Fail(Code::kCorrupt, "logits: ", piece.output.size(),
                " bytes are not a whole number of rows of ", logits.row_floats_);
  }
  logits.values_ = {reinterpret_cast<const float*>(piece.output.data()),
                    piece.output.size() / sizeof(float)};
  return logits;
}

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
