#include "http/api/packed_tokens_sink.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kvd::http {
namespace {

struct Collected final : LlamaSink {
  Status Begin(std::uint64_t bytes) override {
    file_bytes = bytes;
    file.clear();
    return {};
  }
  Status Write(std::span<const std::byte> bytes) override {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::uint64_t file_bytes = 0;
  std::vector<std::byte> file;
};

std::vector<std::byte> BytesOf(const std::vector<std::uint32_t>& words) {
  std::vector<std::byte> bytes(words.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(PackedTokensSinkTest, TokensArePackedHoweverTheFileIsCutIntoPieces) {
  const std::vector<std::byte> file = BytesOf({0x67677371, 2, 3, 11, 12, 13, 77, 78});
  const std::vector<std::byte> packed =
      BytesOf({0x67677371, 2, 7, 0xffffffff, 1, 3, 11, 12, 13, 0, 77, 78});
  for (std::size_t piece = 1; piece <= file.size(); ++piece) {
    Collected collected;
    PackedTokensSink sink(collected);
    for (int round = 0; round < 2; ++round) {  // an export may begin anew
      ASSERT_TRUE(sink.Begin(file.size()));
      for (std::size_t at = 0; at < file.size(); at += piece) {
        const std::size_t taken = std::min(piece, file.size() - at);
        ASSERT_TRUE(sink.Write(std::span(file).subspan(at, taken)));
      }
      EXPECT_EQ(collected.file, packed) << piece;
      EXPECT_EQ(collected.file_bytes, packed.size());
    }
  }
}

TEST(PackedTokensSinkTest, AFileWithoutTokensIsPackedToo) {
  Collected collected;
  PackedTokensSink sink(collected);
  ASSERT_TRUE(sink.Begin(16));
  ASSERT_TRUE(sink.Write(BytesOf({0x67677371, 3, 0, 5})));
  EXPECT_EQ(collected.file, BytesOf({0x67677371, 3, 4, 0xffffffff, 1, 0, 0, 5}));
}

}  // namespace
}  // namespace kvd::http
