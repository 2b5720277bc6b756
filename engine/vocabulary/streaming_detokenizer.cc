#include "engine/vocabulary/streaming_detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace kvd {

Result<std::string> StreamingDetokenizer::Push(TokenId token) {
  KVD_TRY(std::string_view piece, vocabulary_->Piece(token, special_));
  std::string text = std::exchange(held_, {});
  text.append(piece);
  std::size_t held_bytes = IncompleteTailBytes(text);
  held_.assign(text, text.size() - held_bytes);
  text.resize(text.size() - held_bytes);
  return text;
}

std::string StreamingDetokenizer::Flush() { return std::exchange(held_, {}); }

}  // namespace kvd
