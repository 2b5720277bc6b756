// Tests ThreadWorkers: the order of slices, concurrent work, and the end and cancellation of work.
#include "daemon/process/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

namespace kvd {
namespace {

using testing::ElementsAre;

constexpr ThreadWorkers::Options kOneTurn{.turns = 1, .slice = std::chrono::microseconds(0)};

WorkOwner Owner(std::uint32_t uid, std::uint64_t session) {
  return {.owner = OwnerId{uid}, .session = static_cast<SessionId>(session)};
}
RequestId Request(std::uint64_t number) { return static_cast<RequestId>(number); }

// The names of events in the order in which they happened.
class Events {
 public:
  void Add(std::string event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return events_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> events_;
};

// Work that occupies a worker from its start until Open().
class Gate {
 public:
  Workers::Work Work() {
    return [this](WorkControl& control) {
      (void)control.Continue();
      begun_.set_value();
      open_.get_future().get();
    };
  }
  void WaitUntilBegun() { begun_.get_future().get(); }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> open_;
};

// Returns work of `slices` slices. Each slice adds the event `name`.
Workers::Work Sliced(Events& events, const std::string& name, int slices,
                     std::promise<void>* done) {
  return [&events, name, slices, done](WorkControl& control) {
    for (int slice = 0; slice < slices; ++slice) {
      if (!control.Continue()) break;
      events.Add(name);
    }
    if (done != nullptr) done->set_value();
  };
}

TEST(ThreadWorkersTest, SlicesAlternateByUidThenBySession) {
  Events events;
  Gate gate;
  std::promise<void> done[4];
  ThreadWorkers workers(kOneTurn);
  workers.Queue(Owner(9, 9), Request(1), gate.Work());
  gate.WaitUntilBegun();
  workers.Queue(Owner(1, 1), Request(1), Sliced(events, "a", 4, &done[0]));
  workers.Queue(Owner(1, 2), Request(1), Sliced(events, "b", 4, &done[1]));
  workers.Queue(Owner(1, 3), Request(1), Sliced(events, "c", 4, &done[2]));
  workers.Queue(Owner(2, 4), Request(1), Sliced(events, "Z", 4, &done[3]));
  gate.Open();
  for (std::promise<void>& one : done) one.get_future().get();
  // The two uids get slices in turn; the sessions of uid 1 share that uid's slices.
  const std::vector<std::string> all = events.all();
  ASSERT_EQ(all.size(), 16u);
  std::vector<std::string> others;
  int strangers_in_front = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != "Z") others.push_back(all[i]);
    if (all[i] == "Z" && i < 9) ++strangers_in_front;
  }
  EXPECT_EQ(strangers_in_front, 4) << "uid 2 has one session, and as many slices as uid 1";
  for (std::size_t i = 0; i + 3 <= others.size(); i += 3) {
    EXPECT_THAT(std::vector(others.begin() + static_cast<std::ptrdiff_t>(i),
                            others.begin() + static_cast<std::ptrdiff_t>(i + 3)),
                testing::UnorderedElementsAre("a", "b", "c"));
  }
}

TEST(ThreadWorkersTest, AShortCallDoesNotWaitForTheEndOfALongOne) {
  for (const std::uint32_t uid : {1u, 2u}) {
    std::atomic<bool> ends = false;
    std::promise<void> begun, ended, short_done;
    ThreadWorkers workers(kOneTurn);
    workers.Queue(Owner(1, 1), Request(1), [&](WorkControl& control) {
      begun.set_value();
      while (!ends && control.Continue()) {
      }
      ended.set_value();
    });
    begun.get_future().get();
    workers.Queue(Owner(uid, 2), Request(1), [&](WorkControl& control) {
      (void)control.Continue();
      short_done.set_value();
    });
    short_done.get_future().get();  // the long call still runs
    ends = true;
    ended.get_future().get();
  }
}

TEST(ThreadWorkersTest, WorkOfOneSessionRunsInOrderAndOneAtATime) {
  Events events;
  std::atomic<int> running = 0;
  std::promise<void> done;
  ThreadWorkers workers({.turns = 4, .slice = std::chrono::microseconds(0)});
  for (int number = 0; number < 20; ++number) {
    workers.Queue(Owner(1, 1), Request(1), [&, number](WorkControl& control) {
      EXPECT_EQ(running.fetch_add(1), 0);
      for (int slice = 0; slice < 5; ++slice) (void)control.Continue();
      events.Add(std::to_string(number));
      running.fetch_sub(1);
      if (number == 19) done.set_value();
    });
  }
  done.get_future().get();
  std::vector<std::string> expected;
  for (int number = 0; number < 20; ++number) expected.push_back(std::to_string(number));
  EXPECT_EQ(events.all(), expected);
}

TEST(ThreadWorkersTest, NoMoreJobsRunAtOnceThanThereAreTurns) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::promise<void> done[6];
  ThreadWorkers workers({.turns = 2, .slice = std::chrono::microseconds(0)});
  for (std::uint64_t session = 0; session < 6; ++session) {
    workers.Queue(Owner(1, session), Request(1), [&, session](WorkControl& control) {
      for (int slice = 0; slice < 50; ++slice) {
        const int now = running.fetch_add(1) + 1;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        running.fetch_sub(1);
        (void)control.Continue();
      }
      done[session].set_value();
    });
  }
  for (std::promise<void>& one : done) one.get_future().get();
  EXPECT_LE(most.load(), 2);
}

TEST(ThreadWorkersTest, WorkThatWaitsForADeviceLeavesItsTurnToOthers) {
  Events events;
  std::promise<void> blocked, device;
  std::promise<void> done[2];
  ThreadWorkers workers(kOneTurn);
  workers.Queue(Owner(1, 1), Request(1), [&](WorkControl& control) {
    (void)control.Continue();
    control.Block([&] {
      blocked.set_value();
      device.get_future().get();
      events.Add("device");
    });
    events.Add("after");
    (void)control.Continue();
    done[0].set_value();
  });
  blocked.get_future().get();
  workers.Queue(Owner(1, 2), Request(1), Sliced(events, "other", 2, &done[1]));
  done[1].get_future().get();
  EXPECT_THAT(events.all(), ElementsAre("other", "other"));
  device.set_value();
  done[0].get_future().get();
  EXPECT_THAT(events.all(), ElementsAre("other", "other", "device", "after"));
}

TEST(ThreadWorkersTest, TheJobsOfAUidAreLimitedAndEveryUidMayBeginOne) {
  std::atomic<int> begun = 0;
  std::atomic<bool> ends = false;
  std::promise<void> two_begun, other;
  std::promise<void> done[3];
  ThreadWorkers workers({.turns = 1,
                         .slice = std::chrono::microseconds(0),
                         .begun_per_owner_max = 2,
                         .begun_max = 2});
  for (std::uint64_t session = 0; session < 3; ++session) {
    workers.Queue(Owner(1, session), Request(1), [&, session](WorkControl& control) {
      if (begun.fetch_add(1) == 1) two_begun.set_value();
      while (!ends && control.Continue()) {
      }
      done[session].set_value();
    });
  }
  two_begun.get_future().get();
  // Two calls of uid 1 get slices in turn, and the third one waits until one of them ends. A call
  // of uid 2 gets a slice without waiting for the calls of uid 1.
  workers.Queue(Owner(2, 9), Request(1), [&](WorkControl& control) {
    for (int slice = 0; slice < 20; ++slice) (void)control.Continue();
    other.set_value();
  });
  other.get_future().get();
  EXPECT_EQ(begun.load(), 2);
  ends = true;
  for (std::promise<void>& one : done) one.get_future().get();
  EXPECT_EQ(begun.load(), 3);
}

TEST(ThreadWorkersTest, CancelledQueuedWorkIsCalledAtOnceAsCancelled) {
  Gate gate;
  Events events;
  ThreadWorkers workers(kOneTurn);
  workers.Queue(Owner(1, 1), Request(1), gate.Work());
  gate.WaitUntilBegun();
  for (std::uint64_t request = 2; request <= 3; ++request) {
    workers.Queue(Owner(1, 1), Request(request), [&events, request](WorkControl& control) {
      const Status wanted = control.Continue();
      EXPECT_EQ(wanted ? Code::kOk : wanted.error().code, Code::kCancelled);
      events.Add(std::to_string(request));
    });
  }
  EXPECT_FALSE(workers.Cancel(SessionId{2}, Request(2)));
  EXPECT_FALSE(workers.Cancel(SessionId{1}, Request(4)));
  EXPECT_TRUE(workers.Cancel(SessionId{1}, Request(3)));
  EXPECT_THAT(events.all(), ElementsAre("3"));
  EXPECT_FALSE(workers.Cancel(SessionId{1}, Request(3)));
  workers.CancelSession(SessionId{1});
  EXPECT_THAT(events.all(), ElementsAre("3", "2"));
  gate.Open();
}

TEST(ThreadWorkersTest, RunningAndWaitingWorkAreToldOfACancel) {
  std::promise<void> begun[2];
  std::promise<Code> ended[2];
  ThreadWorkers workers(kOneTurn);
  for (std::uint64_t session = 0; session < 2; ++session) {
    workers.Queue(Owner(1, session), Request(7), [&, session](WorkControl& control) {
      begun[session].set_value();
      Status wanted = {};
      while (wanted) wanted = control.Continue();
      ended[session].set_value(wanted.error().code);
    });
  }
  for (std::promise<void>& one : begun) one.get_future().get();
  EXPECT_TRUE(workers.Cancel(SessionId{1}, Request(7)));
  EXPECT_EQ(ended[1].get_future().get(), Code::kCancelled);
  workers.CancelSession(SessionId{0});
  EXPECT_EQ(ended[0].get_future().get(), Code::kCancelled);
}

TEST(ThreadWorkersTest, StopCancelsRunningWorkAndDropsQueuedWork) {
  std::atomic<int> cancelled = 0;
  std::atomic<int> called = 0;
  std::promise<void> begun;
  {
    ThreadWorkers workers(kOneTurn);
    for (std::uint64_t session = 0; session < 3; ++session) {
      workers.Queue(Owner(1, session), Request(1), [&, session](WorkControl& control) {
        if (session == 2) begun.set_value();
        while (control.Continue()) {
        }
        cancelled.fetch_add(1);
      });
      workers.Queue(Owner(1, session), Request(2), [&](WorkControl&) { called.fetch_add(1); });
    }
    begun.get_future().get();
    workers.Stop();
    EXPECT_EQ(cancelled.load(), 3);
    workers.Queue(Owner(1, 1), Request(3), [&](WorkControl&) { called.fetch_add(1); });
    workers.Stop();
  }
  EXPECT_EQ(called.load(), 0);
}

}  // namespace
}  // namespace kvd
