// Encodes and parses the pieces of a running generation: the daemon encodes into its output arena,
// the client reads the pieces in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "shm/wire_generate.h"

namespace kvd::wire {

// One piece of a generation. Only a piece of kind kPieceTokens has more than `done` and `total`.
struct PieceView {
  PieceKind kind = kPieceProgress;
  // With kPieceProgress, the number of prompt tokens computed so far; with kPieceTokens, the number
  // of tokens sampled so far; with kPieceParking, 1 if the request waits for room, else 0.
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::span<const TokenId> tokens;
  std::string_view text;
  std::span<const TokenLogprob> logprobs;
};

std::size_t PieceBytes(const PieceView& piece);
// REQUIRES: out.size() == PieceBytes(piece), 8-byte aligned.
void EncodePiece(const PieceView& piece, std::span<std::byte> out);

// Returns views into `output`. REQUIRES: `output` is 8-byte aligned. Errors: kCorrupt, naming the
// field.
Result<PieceView> ParsePiece(std::span<const std::byte> output);

}  // namespace kvd::wire
