// Tests DeliveredPrefix: an answer that is computed again comes to its caller once.
#include "http/answer/delivered_prefix.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/http/answer/scripted_source.h"

namespace kvd::test {
namespace {

using http::AnswerPiece;
using http::DeliveredPrefix;

// What the caller gets of a piece.
std::string Deliver(DeliveredPrefix& prefix, AnswerPiece piece) {
  const Status taken = prefix.Take(piece);
  return taken ? piece.text : taken.error().message;
}

TEST(DeliveredPrefixTest, PiecesPassUnchangedUntilTheAnswerStartsOver) {
  DeliveredPrefix prefix;
  AnswerPiece progress{.tokens = {}, .text = {}, .logprobs = {}, .is_progress = true, .done = 3};
  ASSERT_TRUE(prefix.Take(progress));
  EXPECT_EQ(progress.done, 3u);
  EXPECT_EQ(Deliver(prefix, LetterPiece({1, 2})), "ab");
  EXPECT_EQ(Deliver(prefix, LetterPiece({3})), "c");
  EXPECT_EQ(prefix.tokens(), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(prefix.text_bytes(), 3u);
  EXPECT_FALSE(prefix.has_started_over());
}

TEST(DeliveredPrefixTest, AnAnswerThatStartsOverComesOnceWhateverItsPiecesAre) {
  DeliveredPrefix prefix;
  ASSERT_EQ(Deliver(prefix, LetterPiece({1, 2, 3})), "abc");
  prefix.StartOver();
  EXPECT_TRUE(prefix.has_started_over());
  EXPECT_EQ(Deliver(prefix, LetterPiece({1})), "");
  EXPECT_EQ(Deliver(prefix, LetterPiece({2, 3, 4})), "d");
  prefix.StartOver();
  EXPECT_EQ(Deliver(prefix, LetterPiece({1, 2})), "") << "again, while it comes again";
  prefix.StartOver();
  EXPECT_EQ(Deliver(prefix, LetterPiece({1, 2, 3, 4, 5})), "e");
  EXPECT_EQ(prefix.tokens(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
}

TEST(DeliveredPrefixTest, TextThatWasHeldBackComesWithItsOwnBytes) {
  DeliveredPrefix prefix;
  ASSERT_EQ(Deliver(prefix, {.tokens = {1, 2}, .text = "a", .logprobs = {}}), "a");
  prefix.StartOver();
  EXPECT_EQ(Deliver(prefix, LetterPiece({1, 2})), "b");
  EXPECT_EQ(prefix.text_bytes(), 2u);
}

TEST(DeliveredPrefixTest, RecordsOfTokensThatWereDeliveredAreLeftOut) {
  DeliveredPrefix prefix;
  ASSERT_EQ(Deliver(prefix, LetterPiece({1})), "a");
  prefix.StartOver();
  AnswerPiece piece = LetterPiece({1, 2});
  for (const TokenId token : {1, 8, 2, 9}) piece.logprobs.push_back({.token = token, .logprob = 0});
  ASSERT_TRUE(prefix.Take(piece));
  ASSERT_EQ(piece.logprobs.size(), 2u);
  EXPECT_EQ(piece.logprobs[0].token, 2);
  EXPECT_EQ(piece.logprobs[1].token, 9);
}

TEST(DeliveredPrefixTest, ProgressIsNotReportedAgain) {
  DeliveredPrefix prefix;
  prefix.StartOver();
  AnswerPiece progress{.tokens = {}, .text = {}, .logprobs = {}, .is_progress = true, .done = 3};
  ASSERT_TRUE(prefix.Take(progress));
  EXPECT_FALSE(progress.is_progress);
}

TEST(DeliveredPrefixTest, OtherTokensThanBeforeAreAConflict) {
  DeliveredPrefix prefix;
  ASSERT_EQ(Deliver(prefix, LetterPiece({1, 2})), "ab");
  prefix.StartOver();
  AnswerPiece other = LetterPiece({1, 3});
  const Status taken = prefix.Take(other);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::kConflict);
}

}  // namespace
}  // namespace kvd::test
