#include "http/loop/turn_watch.h"

#include <gtest/gtest.h>
#include <time.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

namespace kvd::http {
namespace {

using std::chrono::milliseconds;

milliseconds CpuTime() {
  timespec cpu{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return milliseconds(cpu.tv_sec * 1000 + cpu.tv_nsec / 1'000'000);
}

// Keeps the thread busy.
void Work(milliseconds time) {
  const milliseconds until = CpuTime() + time;
  while (CpuTime() < until) {
  }
}

constexpr milliseconds kLong = TurnWatch::kLongTurn + TurnWatch::kMarkTime + milliseconds(3);

class TurnWatchTest : public ::testing::Test {
 protected:
  Loop loop_;
  TurnWatch watch_{loop_};
};

TEST_F(TurnWatchTest, ATurnWithLongWorkIsCounted) {
  for (int i = 0; i < 3; ++i) boost::asio::post(loop_, [] { Work(kLong); });
  watch_.Run();
  ASSERT_EQ(watch_.long_turns().size(), 1u);
  const auto& [label, turns] = *watch_.long_turns().begin();
  EXPECT_EQ(label, "");
  EXPECT_EQ(turns.count, 3u);
  EXPECT_GE(turns.longest, TurnWatch::kLongTurn);
}

TEST_F(TurnWatchTest, ATurnWithALongWaitIsNotCounted) {
  boost::asio::post(loop_, [] { std::this_thread::sleep_for(2 * kLong); });
  boost::asio::steady_timer timer(loop_, 2 * kLong);
  timer.async_wait([](const auto&) {});
  watch_.Run();
  EXPECT_TRUE(watch_.long_turns().empty());
}

TEST_F(TurnWatchTest, ManyShortTurnsAreNotCountedAsLong) {
  const auto portion = TurnWatch::kLongTurn / 4;
  for (int i = 0; i < 12; ++i) boost::asio::post(loop_, [&] { Work(portion); });
  watch_.Run();
  EXPECT_TRUE(watch_.long_turns().empty());
}

Await<void> WorkInside(Loop& loop) {
  boost::asio::steady_timer timer(loop, milliseconds(1));
  co_await timer.async_wait(boost::asio::use_awaitable);
  Work(kLong);
}

Await<void> AwaitWork(Loop& loop) {
  co_await WorkInside(loop);
  boost::asio::co_spawn(Labelled(loop, TurnLabel::Current()), WorkInside(loop),
                        boost::asio::detached);
}

TEST_F(TurnWatchTest, ALongTurnHasTheLabelOfItsCoroutineAfterEachWait) {
  const std::string label = "/some/route";
  const std::string other = "/other";
  boost::asio::co_spawn(Labelled(loop_, &label), AwaitWork(loop_), boost::asio::detached);
  boost::asio::co_spawn(Labelled(loop_, &other), WorkInside(loop_), boost::asio::detached);
  watch_.Run();
  ASSERT_EQ(watch_.long_turns().size(), 2u);
  EXPECT_EQ(watch_.long_turns().at(label).count, 2u);
  EXPECT_EQ(watch_.long_turns().at(other).count, 1u);
  EXPECT_NE(watch_.UnexplainedLongTurns().find("/some/route: 2 of at most "), std::string::npos);
}

TEST_F(TurnWatchTest, ATurnWithAKnownReasonIsNotUnexplained) {
  const std::string label = "/v1/chat/completions";
  ASSERT_FALSE(ReasonForLongTurns(label).empty());
  boost::asio::co_spawn(Labelled(loop_, &label), WorkInside(loop_), boost::asio::detached);
  watch_.Run();
  EXPECT_EQ(watch_.long_turns().at(label).count, 1u);
  EXPECT_EQ(watch_.UnexplainedLongTurns(), "");
}

TEST_F(TurnWatchTest, RunOneForMeasuresOneTurnAndEndsWithoutOne) {
  EXPECT_FALSE(watch_.RunOneFor(milliseconds(1)));
  loop_.restart();
  boost::asio::post(loop_, [] { Work(kLong); });
  EXPECT_TRUE(watch_.RunOneFor(milliseconds(100)));
  EXPECT_EQ(watch_.long_turns().at("").count, 1u);
}

}  // namespace
}  // namespace kvd::http
