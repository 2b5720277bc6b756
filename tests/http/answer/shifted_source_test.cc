// Tests ShiftedSource: a context that is full ends the answer, or is shifted.
#include "http/answer/piece_source.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/http/answer/scripted_source.h"

namespace kvd::test {
namespace {

using http::GenerationPortion;
using http::ShiftedSource;

// A context whose room a test sets; a shift gives three cells.
class FakeContext final : public http::BoundedContext {
 public:
  std::uint32_t room() const override { return cells_left; }
  http::Await<Result<bool>> Shift(bool is_done) override {
    is_done_of_shifts.push_back(is_done);
    if (!allows) co_return false;
    cells_left = 3;
    co_return true;
  }

  std::uint32_t cells_left = 0;
  bool allows = true;
  std::vector<bool> is_done_of_shifts;
};

// A source below that fills the context.
class FillingSource final : public http::PieceSource {
 public:
  FillingSource(ScriptedSource& inner, FakeContext& context) : inner_(inner), context_(context) {}
  Status Begin(const GenerationPortion& portion) override { return inner_.Begin(portion); }
  http::Await<Result<std::optional<http::AnswerPiece>>> Next() override {
    auto piece = co_await inner_.Next();
    if (piece && *piece) context_.cells_left -= static_cast<std::uint32_t>((*piece)->tokens.size());
    co_return piece;
  }
  http::Await<Result<bool>> Prepare() override { return inner_.Prepare(); }
  const wire::GenerateResult& result() const override { return inner_.result(); }

 private:
  ScriptedSource& inner_;
  FakeContext& context_;
};

class ShiftedSourceTest : public ::testing::Test {
 protected:
  SourceEnd Run(ShiftedSource& source, std::int32_t tokens_max, std::uint32_t room) {
    context_.cells_left = room;
    EXPECT_TRUE(source.Begin(
        {.tokens = prompt_, .first = 1, .tokens_max = tokens_max, .may_skip_last = true}));
    return TakeAllPieces(source);
  }

  std::vector<TokenId> prompt_ = {50, 51};
  ScriptedSource scripted_;
  FakeContext context_;
  FillingSource inner_{scripted_, context_};
  ShiftedSource shifts_{inner_, context_, true};
  ShiftedSource ends_{inner_, context_, false};
};

TEST_F(ShiftedSourceTest, AnAnswerThatFitsIsOneGeneration) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  EXPECT_EQ(Run(shifts_, 2, 5).text, "ab");
  EXPECT_FALSE(shifts_.is_truncated());
  EXPECT_EQ(scripted_.portions()[0].tokens_max, 2);
  EXPECT_TRUE(scripted_.portions()[0].may_skip_last);
}

TEST_F(ShiftedSourceTest, NoGenerationIsLongerThanTheRoom) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  EXPECT_EQ(Run(ends_, 9, 2).text, "ab");
  EXPECT_EQ(scripted_.portions()[0].tokens_max, 2);
  EXPECT_TRUE(scripted_.portions()[0].may_skip_last);
  EXPECT_TRUE(ends_.is_truncated());
  EXPECT_TRUE(context_.is_done_of_shifts.empty());
}

TEST_F(ShiftedSourceTest, AShiftContinuesTheAnswerUpToItsLimit) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  scripted_.Put({.pieces = {LetterPiece({3, 4, 5})}});
  scripted_.Put({.pieces = {LetterPiece({6})}});
  EXPECT_EQ(Run(shifts_, 6, 2).text, "abcdef");
  EXPECT_TRUE(shifts_.is_truncated());
  EXPECT_EQ(context_.is_done_of_shifts, (std::vector<bool>{false, false}));
  ASSERT_EQ(scripted_.portions().size(), 3u);
  EXPECT_FALSE(scripted_.portions()[0].may_skip_last) << "a shift continues it";
  EXPECT_EQ(scripted_.portions()[1].tokens_max, 3);
  EXPECT_EQ(scripted_.portions()[1].first, 3u);
  EXPECT_EQ(scripted_.portions()[1].flags, wire::kContinue | wire::kResumeSampler);
  EXPECT_EQ(scripted_.portions()[2].tokens_max, 1);
  EXPECT_TRUE(scripted_.portions()[2].may_skip_last);
}

TEST_F(ShiftedSourceTest, WithoutALimitTheAnswerContinuesUntilTheModelEndsIt) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  scripted_.Put({.pieces = {LetterPiece({3, 4})}, .finish = wire::kFinishEnd});
  EXPECT_EQ(Run(shifts_, GenerationPortion::kNoLimit, 2).text, "abcd");
  EXPECT_EQ(scripted_.portions()[1].tokens_max, 3);
}

TEST_F(ShiftedSourceTest, AnAnswerThatTheModelEndsInAFullContextIsWhole) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}, .finish = wire::kFinishStop});
  EXPECT_EQ(Run(shifts_, 6, 2).text, "ab");
  EXPECT_FALSE(shifts_.is_truncated());
  EXPECT_TRUE(context_.is_done_of_shifts.empty());
}

TEST_F(ShiftedSourceTest, AShiftOfAnEarlierProcessIsNotedOnly) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  scripted_.Put({.pieces = {LetterPiece({3})}, .is_begun_already = true});
  EXPECT_EQ(Run(shifts_, 3, 2).text, "abc");
  EXPECT_EQ(context_.is_done_of_shifts, (std::vector<bool>{true}));
}

TEST_F(ShiftedSourceTest, AModelThatAllowsNoShiftEndsTheAnswer) {
  context_.allows = false;
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  EXPECT_EQ(Run(shifts_, 6, 2).text, "ab");
  EXPECT_TRUE(shifts_.is_truncated());
  EXPECT_EQ(scripted_.portions().size(), 1u);
}

TEST_F(ShiftedSourceTest, WhatCannotBePreparedIsAnErrorAndShiftsNothing) {
  scripted_.Put({.pieces = {LetterPiece({1, 2})}});
  scripted_.Put({.pieces = {}, .prepare_error = Error{Code::kSessionLost, "gone"}});
  EXPECT_EQ(Run(shifts_, 6, 2).error, "gone");
  EXPECT_TRUE(context_.is_done_of_shifts.empty());
}

}  // namespace
}  // namespace kvd::test
