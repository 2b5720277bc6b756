// Tests Answer and DaemonSource with the journal of an earlier process: what is logged comes first
// and without a slot, and an answer that the daemon has lost is computed again.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "http/answer/answer.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/api/support/route_fixture.h"

namespace kvd::http::test {
namespace {

struct Outcome {
  std::vector<AnswerPiece> pieces;
  AnswerEnd end;
  std::string error;

  std::vector<TokenId> tokens() const {
    std::vector<TokenId> all;
    for (const AnswerPiece& piece : pieces) {
      all.insert(all.end(), piece.tokens.begin(), piece.tokens.end());
    }
    return all;
  }
  std::string text() const {
    std::string all;
    for (const AnswerPiece& piece : pieces) all += piece.text;
    return all;
  }
};

Await<Outcome> AnswerWhole(TenantSession& tenant, AnswerRequest request) {
  Outcome outcome;
  auto answer = co_await Answer::Start(tenant, std::move(request));
  if (!answer) {
    outcome.error = answer.error().message;
    co_return outcome;
  }
  for (;;) {
    auto piece = co_await (*answer)->Next();
    if (!piece) outcome.error = piece.error().message;
    if (!piece || !*piece) break;
    outcome.pieces.push_back(std::move(**piece));
  }
  outcome.end = (*answer)->end();
  co_return outcome;
}

class RecoveredAnswerTest : public RouteTest {
 protected:
  void SetUp() override {
    Start();
    directory_ = UniqueFd(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  static AnswerRequest Question() {
    AnswerRequest request;
    request.prompt = {5, 6, 7, 8, 9};
    request.predict_max = 12;
    request.seed = 3;
    request.ignores_eos = true;
    return request;
  }
  Outcome Ask(AnswerRequest request) {
    Outcome outcome = Run(AnswerWhole(tenant(), std::move(request)));
    // A generation that has not ended is cancelled behind the answer, and has the slot until then.
    RunUntil([this] { return tenant().slots().busy_count() == 0; });
    return outcome;
  }
  // A journal with the first `count` pieces of an answer, whose session has ended.
  std::shared_ptr<AnswerJournal> JournalWith(const std::vector<AnswerPiece>& pieces,
                                             std::size_t count) {
    Request request;
    request.method = "POST";
    auto written = AnswerJournal::Create(directory_.get(), "a.journal", "c", request);
    EXPECT_TRUE(written) << written.error().message;
    const auto prompt_tokens = static_cast<std::uint32_t>(Question().prompt.size());
    (*written)->Put(LoggedStart{.request = 77,
                                .sequence = 99,
                                .session = 1,
                                .slot = 0,
                                .cells = prompt_tokens,
                                .prompt_tokens = prompt_tokens,
                                .is_first = true});
    for (std::size_t i = 0; i < count; ++i) (*written)->Put(pieces[i]);
    return *written;
  }
  std::shared_ptr<AnswerJournal> Reopen() {
    auto read = AnswerJournal::Open(directory_.get(), "a.journal");
    EXPECT_TRUE(read) << read.error().message;
    return *read;
  }

  kvd::test::TemporaryFolder folder_;
  UniqueFd directory_;
};

TEST_F(RecoveredAnswerTest, AWholeAnswerOfTheJournalNeedsNoSlot) {
  const std::vector<AnswerPiece> pieces = {
      {.tokens = {1}, .text = "x", .logprobs = {}},
      {.tokens = {2, 3}, .text = "yz", .logprobs = {}},
  };
  {
    const auto written = JournalWith(pieces, 2);
    wire::GenerateResult result{};
    result.predicted = 3;
    result.prompt_computed = 4;
    result.finish = wire::kFinishEnd;
    written->Put(result);
    written->PutEnd();
  }
  AnswerRequest request = Question();
  request.journal = Reopen();
  const std::uint64_t counted = tenant().metrics().predicted_tokens;
  const Outcome outcome = Ask(request);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.text(), "xyz");
  EXPECT_EQ(outcome.end.stop_type, StopType::kEos);
  EXPECT_EQ(outcome.end.predicted_tokens, 3u);
  EXPECT_EQ(outcome.end.cached_tokens, 1u);
  EXPECT_EQ(tenant().metrics().predicted_tokens, counted) << "the earlier process has counted it";
  EXPECT_EQ(tenant().slots().at(0).sequence, SequenceHandle::kNone);
}

TEST_F(RecoveredAnswerTest, AnAnswerThatTheDaemonHasLostComesOnce) {
  const Outcome right = Ask(Question());
  ASSERT_EQ(right.error, "");
  ASSERT_GT(right.pieces.size(), 6u);
  for (const std::size_t logged : {std::size_t{0}, std::size_t{1}, std::size_t{5}}) {
    SCOPED_TRACE(logged);
    JournalWith(right.pieces, logged);
    AnswerRequest request = Question();
    request.journal = Reopen();
    const Outcome again = Ask(request);
    EXPECT_EQ(again.error, "");
    EXPECT_EQ(again.tokens(), right.tokens());
    EXPECT_EQ(again.text(), right.text());
    EXPECT_EQ(again.end.predicted_tokens, right.end.predicted_tokens);
    EXPECT_TRUE(request.journal->is_claimed());
    EXPECT_FALSE(tenant().slots().at(0).is_busy);
    // The pieces that were computed again are in the journal, for the next process.
    const auto journal = Reopen();
    ASSERT_TRUE(journal->TakeStart());
    std::string text;
    while (const auto piece = journal->TakePiece()) text += piece->text;
    EXPECT_EQ(text, right.text());
  }
}

TEST_F(RecoveredAnswerTest, AnAnswerThatComesOutOtherwiseEndsWithAnError) {
  const Outcome right = Ask(Question());
  ASSERT_EQ(right.error, "");
  std::vector<AnswerPiece> other = right.pieces;
  other[1].tokens[0] = other[1].tokens[0] == 1 ? 2 : 1;
  JournalWith(other, 3);
  AnswerRequest request = Question();
  request.journal = Reopen();
  const Outcome again = Ask(request);
  EXPECT_EQ(again.error, "the daemon has lost the answer, and computes another one");
  EXPECT_EQ(again.pieces.size(), 3u) << "those of the journal";
}

TEST_F(RecoveredAnswerTest, AJournalOfAnotherPromptIsNotContinued) {
  const Outcome right = Ask(Question());
  const auto written = JournalWith(right.pieces, 0);
  written->Put(LoggedStart{.request = 1, .session = 1, .first = 50, .is_first = true});
  AnswerRequest request = Question();
  request.journal = Reopen();
  EXPECT_EQ(Ask(request).tokens(), right.tokens());
}

TEST_F(RecoveredAnswerTest, LogprobsOfTheRequestAloneAreKept) {
  AnswerRequest request = Question();
  request.wants_logprobs = true;
  for (const AnswerPiece& piece : Ask(request).pieces) {
    EXPECT_EQ(piece.logprobs.size(), piece.tokens.size());
  }
  request.logprob_count = 3;
  for (const AnswerPiece& piece : Ask(request).pieces) {
    EXPECT_EQ(piece.logprobs.size(), 4 * piece.tokens.size());
  }
}

}  // namespace
}  // namespace kvd::http::test
