#include "shm/piece_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace kvd::wire {
namespace {

struct alignas(64) Buffer {
  std::byte bytes[512];
};

TEST(PieceCodecTest, EncodedPiecesAreParsedInPlace) {
  const TokenId tokens[] = {5, 6};
  const TokenLogprob logprobs[] = {{5, -0.5f}, {7, -1.5f}};
  for (const std::string text : {"", "a", "abcd", "hello"}) {
    const PieceView piece{kPieceTokens, 2, 10, tokens, text, logprobs};
    Buffer buffer;
    const std::span<std::byte> out(buffer.bytes, PieceBytes(piece));
    EncodePiece(piece, out);
    const auto parsed = ParsePiece(out);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->kind, kPieceTokens);
    EXPECT_EQ(parsed->done, 2u);
    EXPECT_EQ(parsed->total, 10u);
    EXPECT_EQ(parsed->text, text);
    ASSERT_EQ(parsed->tokens.size(), 2u);
    EXPECT_EQ(parsed->tokens[1], 6);
    ASSERT_EQ(parsed->logprobs.size(), 2u);
    EXPECT_EQ(parsed->logprobs[1].token, 7);
  }
}

TEST(PieceCodecTest, ProgressIsOnlyAHeader) {
  const PieceView piece{kPieceProgress, 30, 100, {}, {}, {}};
  Buffer buffer;
  EncodePiece(piece, std::span(buffer.bytes, PieceBytes(piece)));
  EXPECT_EQ(PieceBytes(piece), sizeof(GeneratePiece));
  EXPECT_EQ(ParsePiece(std::span(buffer.bytes, sizeof(GeneratePiece)))->done, 30u);
}

TEST(PieceCodecTest, ParkingIsOnlyAHeader) {
  const PieceView piece{kPieceParking, 1, 0, {}, {}, {}};
  Buffer buffer;
  EncodePiece(piece, std::span(buffer.bytes, PieceBytes(piece)));
  EXPECT_EQ(PieceBytes(piece), sizeof(GeneratePiece));
  const auto parsed = ParsePiece(std::span(buffer.bytes, sizeof(GeneratePiece)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->kind, kPieceParking);
  EXPECT_EQ(parsed->done, 1u);
}

TEST(PieceCodecTest, CountsThatDoNotFitAreNamed) {
  Buffer buffer;
  GeneratePiece header{kPieceTokens, 1, 0, 0, 0, 0};
  const auto error = [&](std::size_t byte_count) {
    std::memcpy(buffer.bytes, &header, sizeof header);
    const auto parsed = ParsePiece(std::span(buffer.bytes, byte_count));
    EXPECT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
    return parsed.error().message;
  };
  error(8);
  error(32);
  header.token_count = ~0u;
  error(36);
  header = {kPieceTokens, 0, ~0u, 0, 0, 0};
  error(32);
  header = {kPieceTokens, 0, 0, ~0u, 0, 0};
  error(32);
  header.kind = 9;
  EXPECT_EQ(error(32), "piece.kind: 9");
}

}  // namespace
}  // namespace kvd::wire
