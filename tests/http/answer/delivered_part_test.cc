// Tests DeliveredPart: an answer that is computed again comes to its caller once.
#include "http/answer/delivered_part.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/http/answer/scripted_source.h"

namespace kvd::test {
namespace {

using http::AnswerPiece;
using http::DeliveredPart;

// What the caller gets of a piece.
std::string Deliver(DeliveredPart& part, AnswerPiece piece) {
  const Status taken = part.Take(piece);
  return taken ? piece.text : taken.error().message;
}

TEST(DeliveredPartTest, PiecesPassUnchangedUntilTheAnswerStartsOver) {
  DeliveredPart part;
  AnswerPiece progress{.tokens = {}, .text = {}, .logprobs = {}, .is_progress = true, .done = 3};
  ASSERT_TRUE(part.Take(progress));
  EXPECT_EQ(progress.done, 3u);
  EXPECT_EQ(Deliver(part, LetterPiece({1, 2})), "ab");
  EXPECT_EQ(Deliver(part, LetterPiece({3})), "c");
  EXPECT_EQ(part.tokens(), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(part.text_bytes(), 3u);
  EXPECT_FALSE(part.has_started_over());
}

TEST(DeliveredPartTest, AnAnswerThatStartsOverComesOnceWhateverItsPiecesAre) {
  DeliveredPart part;
  ASSERT_EQ(Deliver(part, LetterPiece({1, 2, 3})), "abc");
  part.StartOver();
  EXPECT_TRUE(part.has_started_over());
  EXPECT_EQ(Deliver(part, LetterPiece({1})), "");
  EXPECT_EQ(Deliver(part, LetterPiece({2, 3, 4})), "d");
  part.StartOver();
  EXPECT_EQ(Deliver(part, LetterPiece({1, 2})), "") << "again, while it comes again";
  part.StartOver();
  EXPECT_EQ(Deliver(part, LetterPiece({1, 2, 3, 4, 5})), "e");
  EXPECT_EQ(part.tokens(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
}

TEST(DeliveredPartTest, TextThatWasHeldBackComesWithItsOwnBytes) {
  DeliveredPart part;
  ASSERT_EQ(Deliver(part, {.tokens = {1, 2}, .text = "a", .logprobs = {}}), "a");
  part.StartOver();
  EXPECT_EQ(Deliver(part, LetterPiece({1, 2})), "b");
  EXPECT_EQ(part.text_bytes(), 2u);
}

TEST(DeliveredPartTest, RecordsOfTokensThatWereDeliveredAreLeftOut) {
  DeliveredPart part;
  ASSERT_EQ(Deliver(part, LetterPiece({1})), "a");
  part.StartOver();
  AnswerPiece piece = LetterPiece({1, 2});
  for (const TokenId token : {1, 8, 2, 9}) piece.logprobs.push_back({.token = token, .logprob = 0});
  ASSERT_TRUE(part.Take(piece));
  ASSERT_EQ(piece.logprobs.size(), 2u);
  EXPECT_EQ(piece.logprobs[0].token, 2);
  EXPECT_EQ(piece.logprobs[1].token, 9);
}

TEST(DeliveredPartTest, ProgressIsNotReportedAgain) {
  DeliveredPart part;
  part.StartOver();
  AnswerPiece progress{.tokens = {}, .text = {}, .logprobs = {}, .is_progress = true, .done = 3};
  ASSERT_TRUE(part.Take(progress));
  EXPECT_FALSE(progress.is_progress);
}

TEST(DeliveredPartTest, OtherTokensThanBeforeAreAConflict) {
  DeliveredPart part;
  ASSERT_EQ(Deliver(part, LetterPiece({1, 2})), "ab");
  part.StartOver();
  AnswerPiece other = LetterPiece({1, 3});
  const Status taken = part.Take(other);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::kConflict);
}

}  // namespace
}  // namespace kvd::test
