#include "shm/piece_codec.h"

#include <cstring>
#include <string>

#include "base/check.h"
#include "base/text.h"

namespace kvd::wire {
namespace {

constexpr std::uint64_t PaddedText(std::uint64_t text_bytes) { return (text_bytes + 3) / 4 * 4; }

std::unexpected<Error> Bad(const std::string& sentence) {
  return Fail(Code::kCorrupt, "piece", sentence);
}

}  // namespace

std::size_t PieceBytes(const PieceView& piece) {
  if (piece.kind != kPieceTokens) return sizeof(GeneratePiece);
  return sizeof(GeneratePiece) + piece.tokens.size_bytes() + PaddedText(piece.text.size()) +
         piece.logprobs.size_bytes();
}

void EncodePiece(const PieceView& piece, std::span<std::byte> out) {
  KVD_ASSERT(out.size() == PieceBytes(piece));
  GeneratePiece header{piece.kind, 0, 0, 0, piece.done, piece.total};
  if (piece.kind != kPieceTokens) {
    std::memcpy(out.data(), &header, sizeof header);
    return;
  }
  header.token_count = static_cast<std::uint32_t>(piece.tokens.size());
  header.text_bytes = static_cast<std::uint32_t>(piece.text.size());
  header.logprob_count = static_cast<std::uint32_t>(piece.logprobs.size());
  std::byte* next = out.data();
  const auto put = [&next](const void* source, std::size_t byte_count) {
    if (byte_count != 0) std::memcpy(next, source, byte_count);
    next += byte_count;
  };
  constexpr std::uint32_t kPadding = 0;
  put(&header, sizeof header);
  put(piece.tokens.data(), piece.tokens.size_bytes());
  put(piece.text.data(), piece.text.size());
  put(&kPadding, PaddedText(piece.text.size()) - piece.text.size());
  put(piece.logprobs.data(), piece.logprobs.size_bytes());
}

Result<PieceView> ParsePiece(std::span<const std::byte> output) {
  KVD_ASSERT(reinterpret_cast<std::uintptr_t>(output.data()) % 8 == 0);
  if (output.size() < sizeof(GeneratePiece)) {
    return Bad(Concat(": ", output.size(), " bytes, at least ", sizeof(GeneratePiece), " wanted"));
  }
  GeneratePiece header;
  std::memcpy(&header, output.data(), sizeof header);
  if (header.kind < kPieceProgress || header.kind > kPieceParking) {
    return Bad(Concat(".kind: ", header.kind));
  }
  const std::uint64_t token_bytes = std::uint64_t{header.token_count} * sizeof(TokenId);
  const std::uint64_t text_bytes = PaddedText(header.text_bytes);
  const std::uint64_t logprob_bytes = std::uint64_t{header.logprob_count} * sizeof(TokenLogprob);
  const std::uint64_t wanted_bytes = sizeof header + token_bytes + text_bytes + logprob_bytes;
  if (wanted_bytes != output.size()) {
    return Bad(Concat(": ", output.size(), " bytes, its counts say ", wanted_bytes));
  }
  const std::byte* tokens = output.data() + sizeof header;
  const std::byte* text = tokens + token_bytes;
  const std::byte* logprobs = text + text_bytes;
  return PieceView{static_cast<PieceKind>(header.kind),
                   header.done,
                   header.total,
                   {reinterpret_cast<const TokenId*>(tokens), header.token_count},
                   {reinterpret_cast<const char*>(text), header.text_bytes},
                   {reinterpret_cast<const TokenLogprob*>(logprobs), header.logprob_count}};
}

}  // namespace kvd::wire
