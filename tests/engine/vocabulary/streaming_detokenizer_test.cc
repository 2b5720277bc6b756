#include "engine/vocabulary/streaming_detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "engine/vocabulary/well_formed_text.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

// Uses SmallBytePairData, whose tokens 0 to 255 are single bytes.
class StreamingDetokenizerTest : public testing::Test {
 protected:
  std::string Push(int byte) {
    Result<std::string> text = stream_.Push(byte);
    EXPECT_TRUE(text.has_value());
    return text ? *text : std::string();
  }

  std::unique_ptr<Vocabulary> vocabulary_ = MakeVocabulary(SmallBytePairData());
  StreamingDetokenizer stream_{*vocabulary_, false};
};

TEST_F(StreamingDetokenizerTest, ACharacterComesOutWithItsLastByte) {
  for (std::string_view character : {"a", "\u00e9", "\u20ac", "\U0001f999", "\U0010ffff"}) {
    for (std::size_t i = 0; i < character.size(); ++i) {
      bool last = i + 1 == character.size();
      EXPECT_EQ(Push(static_cast<unsigned char>(character[i])), last ? character : "");
      EXPECT_EQ(stream_.held(), last ? "" : character.substr(0, i + 1));
    }
  }
  EXPECT_EQ(stream_.Flush(), "");
}

TEST_F(StreamingDetokenizerTest, FlushGivesWhatIsHeldAsItIs) {
  EXPECT_EQ(Push(0xf0), "");
  EXPECT_EQ(Push(0x9f), "");
  EXPECT_EQ(Push(0xa6), "");
  EXPECT_EQ(stream_.Flush(), "\xf0\x9f\xa6");
  EXPECT_EQ(stream_.Flush(), "");
  EXPECT_EQ(Push('a'), "a");
}

TEST_F(StreamingDetokenizerTest, BytesThatCanBecomeNoCharacterComeOutAtOnce) {
  EXPECT_EQ(Push(0xff), "\xff");
  EXPECT_EQ(Push(0x80), "\x80");
  EXPECT_EQ(Push(0xe2), "");
  EXPECT_EQ(Push('a'),
            "\xe2"
            "a");
  EXPECT_EQ(Push(0xe2), "");
  EXPECT_EQ(Push(0xe2), "\xe2")
      << "the first byte can no longer become a character, the second can";
  EXPECT_EQ(Push(0x82), "");
  EXPECT_EQ(Push(0xac), "\u20ac");
}

TEST_F(StreamingDetokenizerTest, ControlTokensAreSilentUnlessTheyAreAskedFor) {
  EXPECT_EQ(Push(261), "");
  EXPECT_EQ(Push(260), " hello") << "the leading space is kept, because the text continues";
  StreamingDetokenizer special(*vocabulary_, true);
  EXPECT_EQ(*special.Push(261), "<|end|>");
}

TEST_F(StreamingDetokenizerTest, AnIdThatIsNoTokenChangesNothing) {
  EXPECT_EQ(Push(0xe2), "");
  EXPECT_EQ(stream_.Push(9999).error().code, Code::kInvalidArgument);
  EXPECT_EQ(stream_.held(), "\xe2");
}

TEST_F(StreamingDetokenizerTest, ThePartsTogetherAreTheTextAndOfAGoodTextEachPartIsGood) {
  std::mt19937 random(5);
  for (int i = 0; i < test::Scaled(500, 500); ++i) {
    bool well_formed = i % 2 == 0;
    std::string text;
    for (auto length = random() % 20; length > 0; --length) {
      if (!well_formed && random() % 4 == 0) text.push_back(static_cast<char>(random()));
      AppendUtf8(static_cast<std::uint32_t>(random() % 0xd800), text);
    }
    StreamingDetokenizer stream(*vocabulary_, false);
    std::string streamed;
    for (char byte : text) {
      Result<std::string> part = stream.Push(static_cast<unsigned char>(byte));
      ASSERT_TRUE(part.has_value());
      EXPECT_LE(stream.held().size(), 3u);
      if (well_formed) {
        EXPECT_EQ(WellFormedText(*part).view(), *part);
      }
      streamed += *part;
    }
    EXPECT_TRUE(!well_formed || stream.held().empty());
    streamed += stream.Flush();
    EXPECT_EQ(streamed, text);
  }
}

}  // namespace
}  // namespace kvd
