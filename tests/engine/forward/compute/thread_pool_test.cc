#include "engine/forward/compute/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "engine/forward/compute/compute.h"

namespace kvd {
namespace {

TEST(ThreadPoolTest, RunsEachUnitOnce) {
  for (const std::uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    for (const std::size_t units : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> calls(units);
      std::atomic<bool> workers_exist = true;
      pool.Run(units, [&](std::uint32_t worker, std::size_t unit) {
        ++calls[unit];
        if (worker >= threads) workers_exist = false;
      });
      EXPECT_TRUE(std::ranges::all_of(calls, [](const auto& count) { return count == 1; }))
          << threads << " threads, " << units << " units";
      EXPECT_TRUE(workers_exist);
    }
  }
}

TEST(ThreadPoolTest, TasksAfterTheThreadsHaveSleptRunEachUnitOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> calls(16);
  for (int turn = 0; turn < 400; ++turn) {
    // Longer and shorter than a worker spins, so that workers come in time, late, and not at all.
    if (turn % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(turn));
    const std::size_t units = 1 + static_cast<std::size_t>(turn) % calls.size();
    pool.Run(units, [&](std::uint32_t, std::size_t unit) { ++calls[unit]; });
    for (std::size_t unit = 0; unit < calls.size(); ++unit) {
      ASSERT_EQ(calls[unit].exchange(0), unit < units ? 1 : 0) << "turn " << turn;
    }
  }
}

TEST(ThreadPoolTest, TasksAfterAPauseRunEachUnitOnce) {
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> calls(16);
    for (int turn = 0; turn < 600; ++turn) {
      if (turn % 3 != 0) pool.Rest();
      if (turn % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(turn));
      const std::size_t units = 1 + static_cast<std::size_t>(turn) % calls.size();
      // Bursts are shorter and longer than a wake-up, so that workers are woken at once, later and
      // not at all.
      const auto length = std::chrono::microseconds(turn % 100 < 50 ? 0 : turn % 50);
      pool.Run(units, [&](std::uint32_t, std::size_t unit) {
        const auto end = std::chrono::steady_clock::now() + length;
        while (std::chrono::steady_clock::now() < end) {
        }
        ++calls[unit];
      });
      for (std::size_t unit = 0; unit < calls.size(); ++unit) {
        ASSERT_EQ(calls[unit].exchange(0), unit < units ? 1 : 0) << "turn " << turn;
      }
    }
  }
}

TEST(ThreadPoolTest, ALongTaskAfterShortOnesUsesTheWorkers) {
  ThreadPool pool(2);
  std::atomic<bool> has_worked = false;
  for (int turn = 0; turn < 200 && !has_worked; ++turn) {
    // A short burst, after which the worker sleeps and is not expected to be needed.
    pool.Rest();
    pool.Run(2, [](std::uint32_t, std::size_t) {});
    pool.Rest();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.Run(20, [&](std::uint32_t worker, std::size_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      if (worker == 1) has_worked = true;
    });
  }
  EXPECT_TRUE(has_worked);
}

TEST(ThreadPoolTest, PinnedWorkersStayOnTheirProcessors) {
  const std::vector<int> processors = UsableProcessors();
  ASSERT_FALSE(processors.empty());
  const auto threads = static_cast<std::uint32_t>(std::min<std::size_t>(processors.size(), 3));
  // The test runs in a separate thread, because the thread that creates the pool remains pinned.
  std::thread caller([&] {
    ThreadPool pool(threads, processors);
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<int> at(64, -1);
      std::vector<std::uint32_t> by(at.size());
      pool.Run(at.size(), [&](std::uint32_t worker, std::size_t unit) {
        at[unit] = ::sched_getcpu();
        by[unit] = worker;
      });
      for (std::size_t unit = 0; unit < at.size(); ++unit) {
        ASSERT_EQ(at[unit], processors[by[unit]]) << "worker " << by[unit];
      }
    }
  });
  caller.join();
}

TEST(ProcessorsTest, UsableProcessorsAreThoseOfTheAffinityMask) {
  const std::vector<int> all = UsableProcessors();
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all.size(), std::thread::hardware_concurrency());
  std::thread one([&] {
    ASSERT_TRUE(PinThisThread(all.back()));
    EXPECT_EQ(UsableProcessors(), std::vector<int>{all.back()});
    EXPECT_FALSE(PinThisThread(8000)) << "processor 8000 does not exist";
    EXPECT_EQ(UsableProcessors(), std::vector<int>{all.back()});
  });
  one.join();
}

TEST(FloatBufferTest, ABufferIsAlignedToCacheLinesOrHugePages) {
  const auto misalignment = [](const FloatBuffer& buffer, std::uintptr_t to) {
    return reinterpret_cast<std::uintptr_t>(buffer.data()) % to;
  };
  EXPECT_EQ(misalignment(FloatBuffer(1), 64), 0u);
  const std::size_t large = (std::size_t{2} << 20) / sizeof(float);
  const FloatBuffer buffer(large + 1);
  EXPECT_EQ(misalignment(buffer, std::uintptr_t{2} << 20), 0u);
  buffer.data()[large] = 1.0f;
  EXPECT_EQ(FloatBuffer().data(), nullptr);
}

}  // namespace
}  // namespace kvd
