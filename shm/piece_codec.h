// The pieces of a running generation, both ways: the daemon encodes into its output arena, the
// client reads them where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/wire_generate.h"

namespace kvd::wire {

// kPieceProgress has done and total only.
struct PieceView {
  PieceKind kind = kPieceProgress;
  std::uint64_t done = 0;  // prompt tokens; pieces of tokens: sampled so far
  std::uint64_t total = 0;
  std::span<const TokenId> tokens;
  std::string_view text;
  std::span<const TokenLogprob> logprobs;
};

std::size_t PieceBytes(const PieceView& piece);
// REQUIRES: out.size() == PieceBytes(piece), 8-byte aligned.
void EncodePiece(const PieceView& piece, std::span<std::byte> out);

// Views into `output`, which must be 8-byte aligned. Errors: kCorrupt, naming the field.
Result<PieceView> ParsePiece(std::span<const std::byte> output);

}  // namespace kvd::wire
