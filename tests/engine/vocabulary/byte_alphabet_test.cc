#include "engine/vocabulary/byte_pair.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

TEST(ByteAlphabetTest, EveryByteMapsToAUniqueCharacterAndBack) {
  std::string all;
  std::string decoded;
  for (int byte = 0; byte < 256; ++byte) all.append(ByteCharacter(static_cast<std::uint8_t>(byte)));
  AppendDecodedBytes(all, decoded);
  ASSERT_EQ(decoded.size(), 256u);
  for (std::size_t byte = 0; byte < 256; ++byte)
    EXPECT_EQ(static_cast<unsigned char>(decoded[byte]), byte);
}

TEST(ByteAlphabetTest, TheAlphabetIsThatOfGpt2) {
  EXPECT_EQ(ByteCharacter(' '), "\u0120");
  EXPECT_EQ(ByteCharacter('\n'), "\u010a");
  EXPECT_EQ(ByteCharacter(0), "\u0100");
  EXPECT_EQ(ByteCharacter('~'), "~");
  EXPECT_EQ(ByteCharacter(0x7f), "\u0121");
  EXPECT_EQ(ByteCharacter(0xad), "\u0143");
  EXPECT_EQ(ByteCharacter(0xff), "\u00ff");
}

TEST(ByteAlphabetTest, CharactersOutsideTheAlphabetStayUnchanged) {
  std::string decoded;
  AppendDecodedBytes("a \u20ac\u0144\xff", decoded);
  EXPECT_EQ(decoded, "a \u20ac\u0144\xff");
}

}  // namespace
}  // namespace kvd
