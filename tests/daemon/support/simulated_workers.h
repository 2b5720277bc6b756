// SimulatedWorkers: workers that run only when their owner asks them to. The owner executes the
// work job by job, in an order of its choice between the sessions.
//
// Owner: a simulation. One thread uses SimulatedWorkers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/process/workers.h"

namespace kvd::test {

class SimulatedWorkers final : public Workers {
 public:
  // Chooses one of `count` jobs, or one of `count` outcomes: returns a number below `count`.
  // REQUIRES: `count` is at least 1.
  using Choose = std::function<std::size_t(std::size_t count)>;

  explicit SimulatedWorkers(Choose choose) : choose_(std::move(choose)) {}

  void Queue(const WorkOwner& owner, RequestId request, Work work) override {
    pieces_.push_back({.owner = owner, .request = request, .work = std::move(work)});
  }
  void CancelSession(SessionId session) override {
    (void)CancelWhere([session](const Job& job) { return job.owner.session == session; });
  }
  bool Cancel(SessionId session, RequestId request) override {
    return CancelWhere([session, request](const Job& job) {
      return job.owner.session == session && job.request == request;
    });
  }

  // Executes the first job of one session. False: there is no job.
  bool RunOne() {
    std::vector<std::size_t> firsts;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (IsFirst(i)) firsts.push_back(i);
    }
    if (firsts.empty()) return false;
    const auto chosen =
        pieces_.begin() + static_cast<std::ptrdiff_t>(firsts[choose_(firsts.size())]);
    const Job job = std::move(*chosen);
    pieces_.erase(chosen);
    Call(job);
    return true;
  }
  // Drops the waiting jobs, as workers do that are stopped.
  void DropQueued() { pieces_.clear(); }

 private:
  struct Job {
    WorkOwner owner;
    RequestId request;
    Work work;
    bool is_cancelled = false;
  };
  class Cancelled final : public WorkControl {
   public:
    Status Continue() override { return Fail(Code::kCancelled, "cancelled"); }
  };

  static void Call(const Job& job) {
    Cancelled cancelled;
    job.work(job.is_cancelled ? static_cast<WorkControl&>(cancelled) : Uncontrolled());
  }
  bool IsFirst(std::size_t at) const {
    return std::none_of(
        pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(at),
        [&](const Job& before) { return before.owner.session == pieces_[at].owner.session; });
  }
  // Cancels the matching jobs. The first job of a session may have begun in the daemon's real
  // workers. `choose_` therefore decides whether the first job of a session stays queued, and
  // whether a job that stays queued notices the cancellation.
  template <class Matches>
  bool CancelWhere(const Matches& matches) {
    bool has_found = false;
    std::vector<Job> ended;
    for (std::size_t i = 0; i < pieces_.size();) {
      if (!matches(pieces_[i])) {
        ++i;
        continue;
      }
      has_found = true;
      if (IsFirst(i) && choose_(2) == 1) {
        pieces_[i].is_cancelled = choose_(2) == 1;
        ++i;
        continue;
      }
      pieces_[i].is_cancelled = true;
      ended.push_back(std::move(pieces_[i]));
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const Job& job : ended) Call(job);
    return has_found;
  }

  const Choose choose_;
  std::deque<Job> pieces_;
};

}  // namespace kvd::test
