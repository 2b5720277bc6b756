#include "engine/vocabulary/vocabulary.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/utf8.h"
#include "engine/vocabulary/well_formed_text.h"
#include "tests/engine/vocabulary/small_models.h"
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

TEST_F(StreamingDetokenizerTest, ACharacterIsEmittedWithItsLastByte) {
  for (std::string_view character : {"a", "\u00e9", "\u20ac", "\U0001f999", "\U0010ffff"}) {
    for (std::size_t i = 0; i < character.size(); ++i) {
      bool last = i + 1 == character.size();
      EXPECT_EQ(Push(static_cast<unsigned char>(character[i])), last ? character : "");
      EXPECT_EQ(stream_.held(), last ? "" : character.substr(0, i + 1));
    }
  }
  EXPECT_EQ(stream_.Flush(), "");
}

TEST_F(StreamingDetokenizerTest, FlushReturnsTheHeldBytesUnchanged) {
  EXPECT_EQ(Push(0xf0), "");
  EXPECT_EQ(Push(0x9f), "");
  EXPECT_EQ(Push(0xa6), "");
  EXPECT_EQ(stream_.Flush(), "\xf0\x9f\xa6");
  EXPECT_EQ(stream_.Flush(), "");
  EXPECT_EQ(Push('a'), "a");
}

TEST_F(StreamingDetokenizerTest, InvalidBytesAreEmittedAtOnce) {
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

TEST_F(StreamingDetokenizerTest, ControlTokensAreHiddenUnlessRequested) {
  EXPECT_EQ(Push(261), "");
  EXPECT_EQ(Push(260), " hello") << "the leading space is kept, because the text continues";
  StreamingDetokenizer special(*vocabulary_, true);
  EXPECT_EQ(*special.Push(261), "<|end|>");
}

TEST_F(StreamingDetokenizerTest, AnIdOutsideTheVocabularyChangesNothing) {
  EXPECT_EQ(Push(0xe2), "");
  EXPECT_EQ(stream_.Push(9999).error().code, Code::kInvalidArgument);
  EXPECT_EQ(stream_.held(), "\xe2");
}

TEST_F(StreamingDetokenizerTest, ThePartsJoinToTheTextAndAreValidIfTheTextIs) {
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

// Every sequence of tokens whose pieces join to the text, one of each length in turn: with byte
// tokens, a text can be cut at every byte.
TEST(StreamingDetokenizerKindsTest, ATextStreamsToTheSameTextInAnyParts) {
  const std::string text = "a\u00e9\u4f60\U0001f999";
  for (const VocabularyData& data :
       {SmallBytePairData(), SmallSentencePieceData(), test::SmallLinesData(),
        test::SmallLongestMatchData(), test::SmallReverseUnigramData()}) {
    const auto vocabulary = MakeVocabulary(data);
    std::map<std::string, TokenId> token_of;
    for (TokenId token = 0; vocabulary->Contains(token); ++token) {
      if (vocabulary->IsControl(token)) continue;
      token_of.emplace(*vocabulary->Piece(token, false), token);
    }
    // Bit i of `cuts`: the text is cut before byte i + 1.
    for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      std::vector<TokenId> tokens;
      std::size_t begin = 0;
      for (std::size_t end = 1; end <= text.size(); ++end) {
        if (end < text.size() && (cuts >> (end - 1) & 1) == 0) continue;
        const auto found = token_of.find(text.substr(begin, end - begin));
        if (found == token_of.end()) break;
        tokens.push_back(found->second);
        begin = end;
      }
      if (begin < text.size()) continue;
      StreamingDetokenizer stream(*vocabulary, false);
      std::string streamed;
      for (const TokenId token : tokens) {
        const Result<std::string> part = stream.Push(token);
        ASSERT_TRUE(part.has_value());
        EXPECT_EQ(WellFormedText(*part).view(), *part) << data.model;
        streamed += *part;
        EXPECT_EQ(streamed + std::string(stream.held()),
                  text.substr(0, streamed.size() + stream.held().size()));
      }
      EXPECT_EQ(streamed, text) << data.model;
      EXPECT_EQ(stream.held(), "");
    }
  }
}

// The tokens of a text of each vocabulary with special tokens, cut after every token: what was
// streamed so far and the bytes held back are the pieces so far.
TEST(StreamingDetokenizerKindsTest, StreamedAndHeldBytesEqualThePiecesAfterEveryToken) {
  const std::string text =
      "hello <user>\u00e9\u4f60\xff\xe4\xbd <dna>acg</dna>\n\n\u2581 ab\U0001f999";
  for (const VocabularyData& data :
       {SmallBytePairData(), SmallSentencePieceData(), test::SmallLinesData(),
        test::SmallBlankSeparatedData(), test::SmallDnaData(), test::SmallLongestMatchData(),
        test::SmallReverseUnigramData()}) {
    const auto vocabulary = MakeVocabulary(data);
    const auto tokens = vocabulary->Tokenize(text, {.add_special = true, .parse_special = true});
    ASSERT_TRUE(tokens.has_value()) << data.model;
    for (const bool special : {false, true}) {
      StreamingDetokenizer stream(*vocabulary, special);
      std::string pieces;
      std::string streamed;
      for (const TokenId token : *tokens) {
        pieces += *vocabulary->Piece(token, special);
        streamed += *stream.Push(token);
        EXPECT_EQ(streamed + std::string(stream.held()), pieces) << data.model;
        EXPECT_EQ(IncompleteTailBytes(pieces), stream.held().size()) << data.model;
      }
      EXPECT_EQ(streamed + stream.Flush(), pieces) << data.model;
    }
  }
}

}  // namespace
}  // namespace kvd
