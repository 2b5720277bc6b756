// Tests the compilation of grammars for several owners: what is kept, what is counted, and the
// order of the jobs.
#include "daemon/requests/grammar_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "tests/daemon/support/fake_engine.h"

namespace kvd {
namespace {

using test::FakeEngine;
using ::testing::HasSubstr;

class GrammarWorkerTest : public ::testing::Test {
 protected:
  std::shared_ptr<GrammarJob> Begin(std::uint32_t uid, const std::string& text,
                                    std::vector<TokenId> past = {}) {
    return worker_.Begin({.owner = OwnerId{uid},
                          .account = shares_.AccountOf(OwnerId{uid}),
                          .text = text,
                          .hash = std::hash<std::string>()(text),
                          .triggers = {},
                          .past = std::move(past)});
  }
  void RunAll() {
    while (!calls_.empty()) RunOne();
  }
  void RunOne() {
    const auto call = std::move(calls_.front());
    calls_.pop_front();
    call();
  }
  const Grammar* Compiled(std::uint32_t uid, const std::string& text) {
    const auto job = Begin(uid, text);
    RunAll();
    EXPECT_TRUE(job->is_done());
    auto answer = job->Take();
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? answer->matcher().grammar().get() : nullptr;
  }
  std::uint64_t Held(std::uint32_t uid) {
    return shares_.AccountOf(OwnerId{uid})->held(Resource::kHeldBytes);
  }
  static Quotas SmallQuotas() {
    Quotas quotas;
    quotas.others.held_bytes = 4 * GrammarWorker::kCacheBytes;
    return quotas;
  }

  FakeEngine engine_;
  Shares shares_{SmallQuotas(), OwnerId{1}, true};
  std::deque<std::function<void()>> calls_;
  int wakes_ = 0;
  GrammarWorker worker_{engine_.vocabulary(), engine_.config().vocab_size,
                        [this](std::function<void()> call) { calls_.push_back(std::move(call)); },
                        [this] { ++wakes_; }};
};

TEST_F(GrammarWorkerTest, AGrammarIsCompiledOnceForItsOwner) {
  const Grammar* first = Compiled(1, "root ::= \"a\"");
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(Compiled(1, "root ::= \"a\""), first);
  EXPECT_NE(Compiled(2, "root ::= \"a\""), first) << "owners share no grammars";
  EXPECT_NE(Compiled(1, "root ::= \"b\""), first);
  EXPECT_GE(Held(2), GrammarWorker::kCacheBytes);
}

TEST_F(GrammarWorkerTest, NewGrammarsEvictCachedOnes) {
  for (int i = 0; i < 20; ++i) {
    (void)Compiled(2, "root ::= \"" + std::string(1, static_cast<char>('a' + i)) + "\"");
  }
  EXPECT_LE(Held(2), 4 * GrammarWorker::kCacheBytes);
  // The grammars of running requests stay.
  std::vector<AnswerGrammar> used;
  for (int i = 0; i < 10; ++i) {
    const auto job = Begin(2, "root ::= \"" + std::string(1, static_cast<char>('A' + i)) + "\"");
    RunAll();
    auto answer = job->Take();
    if (!answer) {
      EXPECT_EQ(answer.error().code, Code::kNoSpace);
      EXPECT_THAT(answer.error().message, HasSubstr("grammar"));
      EXPECT_GE(i, 2);
      break;
    }
    ASSERT_LT(i, 4) << "more grammars than the owner may hold";
    used.push_back(std::move(*answer));
  }
  used.clear();
  EXPECT_NE(Compiled(2, "root ::= \"z\""), nullptr);
}

TEST_F(GrammarWorkerTest, OwnersAreServedInTurn) {
  std::vector<std::shared_ptr<GrammarJob>> first;
  for (int i = 0; i < 4; ++i) first.push_back(Begin(2, "root ::= \"a\""));
  const auto other = Begin(3, "root ::= \"b\"");
  RunOne();
  RunOne();
  EXPECT_TRUE(other->is_done());
  EXPECT_TRUE(first[0]->is_done());
  EXPECT_FALSE(first[1]->is_done());
  RunAll();
  EXPECT_TRUE(first[3]->is_done());
}

TEST_F(GrammarWorkerTest, ErrorsOfTheGrammarAndOfTheEarlierTextAreReported) {
  auto job = Begin(1, "root ::= (");
  RunAll();
  auto failed = job->Take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInvalidArgument);
  job = Begin(1, "root ::= \"abc\" [d-f]+", {FakeEngine::Letter('a'), FakeEngine::Letter('b')});
  RunAll();
  auto read = job->Take();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->Accept(FakeEngine::Letter('c')));
  job = Begin(1, "root ::= \"abc\"", {FakeEngine::Letter('a'), FakeEngine::Letter('c')});
  RunAll();
  failed = job->Take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kConflict);
  EXPECT_THAT(failed.error().message, HasSubstr("token 1 of the 2"));
  job = Begin(1, "root ::= \"q\"");
  job->Cancel();
  RunAll();
  failed = job->Take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kCancelled);
}

TEST_F(GrammarWorkerTest, AMaskIsComputedAheadOnlyOnce) {
  const auto job = Begin(1, "root ::= [a-c]+");
  RunAll();
  auto answer = job->Take();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->matcher().has_cached_mask());
  worker_.PrepareMask(answer->matcher());
  EXPECT_EQ(calls_.size(), 1u);
  RunAll();
  EXPECT_TRUE(answer->matcher().has_cached_mask());
  worker_.PrepareMask(answer->matcher());
  EXPECT_TRUE(calls_.empty());
}

}  // namespace
}  // namespace kvd
