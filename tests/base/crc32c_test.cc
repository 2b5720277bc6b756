#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace kvd {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32cTest, EqualsThePublishedChecksums) {
  EXPECT_EQ(Crc32c(0, {}), 0u);
  EXPECT_EQ(Crc32c(0, BytesOf("123456789")), 0xe3069283u);
  // The expected checksums are from RFC 3720, appendix B.4.
  const std::vector<std::byte> zeros(32);
  const std::vector<std::byte> ones(32, std::byte{0xff});
  EXPECT_EQ(Crc32c(0, zeros), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, ones), 0x62a8ab43u);
  EXPECT_EQ(internal::Crc32cSoftware(0, ones), 0x62a8ab43u);
}

TEST(Crc32cTest, BothImplementationsAgreeOnEveryLengthAndSplit) {
  std::vector<std::byte> bytes(300);
  for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(k * 37 + 11);
  for (std::size_t end = 0; end <= bytes.size(); ++end) {
    const std::span<const std::byte> all = std::span<const std::byte>(bytes).first(end);
    const std::uint32_t whole = Crc32c(0, all);
    EXPECT_EQ(internal::Crc32cSoftware(0, all), whole);
    const std::size_t cut = end / 3;
    EXPECT_EQ(Crc32c(Crc32c(0, all.first(cut)), all.subspan(cut)), whole);
    EXPECT_EQ(internal::Crc32cSoftware(Crc32c(0, all.first(cut)), all.subspan(cut)), whole);
  }
}

TEST(Crc32cTest, BothImplementationsAgreeOnLongInputs) {
  std::vector<std::byte> bytes(20'000);
  for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(k * k / 7 + k);
  for (std::size_t end = 3'000; end <= bytes.size(); end += 41) {
    for (const std::size_t begin : {0, 1, 13}) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, end - begin);
      EXPECT_EQ(Crc32c(0x1234567u, part), internal::Crc32cSoftware(0x1234567u, part)) << end;
    }
  }
}

}  // namespace
}  // namespace kvd
