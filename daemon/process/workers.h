// Workers: run calls on text and files that would take too long on the io thread. ThreadWorkers are
// the daemon's workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/work_control.h"
#include "engine/memory/owner.h"

namespace kvd {

// Workers: run calls on text and files that would take too long on the io thread.
//
// Owner: main; the workers outlive the server. The io thread calls Queue, CancelSession and Cancel;
// the work runs on other threads. Workers call each piece of work once. The pieces of work of one
// session run one after another in the order in which they were queued, also if they were queued
// through different connections of the session. Retried requests rely on the order of a session's
// work.

// The owner of a piece of work: turns rotate between owners, then between sessions.
struct WorkOwner {
  OwnerId owner{};
  SessionId session = SessionId::kNone;
};

class Workers {
 public:
  // The work first calls `control.Continue()`, and then again at bounded intervals. A piece of work
  // does not throw.
  using Work = std::function<void(WorkControl& control)>;

  virtual ~Workers() = default;

  virtual void Queue(const WorkOwner& owner, RequestId request, Work work) = 0;
  // After CancelSession, running work of the session soon ends with kCancelled. CancelSession
  // itself calls the session's queued work at once, with a control that returns kCancelled.
  virtual void CancelSession(SessionId session) = 0;
  // Cancels the work of one request as CancelSession does. Returns whether work of the request was
  // queued or running.
  virtual bool Cancel(SessionId session, RequestId request) = 0;
};

// ThreadWorkers: the implementation of Workers that runs each job on its own thread.
//
// Each job that has begun has its own thread, but only `turns` jobs run at a time. A job whose
// slice has passed gives its turn to another job when it calls Continue and other jobs wait. A job
// that waits for a device (Block) holds no turn. Turns rotate between owners, then between the
// sessions of an owner, so a short call never waits for the end of another owner's long call.
//
// Threads: the owner calls Stop and the destructor; for the other functions see Workers.
// Invariant: at most `turns` jobs hold a turn. While a turn is free, the first job of a session
// waits only if it has not begun and cannot begin, because the number of begun jobs is at its limit
// or no thread can be started.
class ThreadWorkers final : public Workers {
 public:
  struct Options {
    std::uint32_t turns = 2;
    // Time after which a job gives up its turn; 0: at every call of Continue.
    std::chrono::microseconds slice{5000};
    // Limits of the number of jobs that have begun and not ended. Each owner may always have one
    // job that has begun, whatever the limits are.
    std::uint32_t begun_per_owner_max = 16;
    std::uint32_t begun_max = 64;
  };

  ThreadWorkers();
  explicit ThreadWorkers(const Options& options);
  ~ThreadWorkers() override;

  void Queue(const WorkOwner& owner, RequestId request, Work work) override;
  void CancelSession(SessionId session) override;
  bool Cancel(SessionId session, RequestId request) override;

  // Cancels all jobs, drops the jobs that have not begun, and returns when the running jobs have
  // ended. Calls of Queue after Stop have no effect.
  void Stop();

 private:
  class Job;
  class Thread;
  struct SessionQueue {
    SessionId session;
    // The jobs of the session in order; only the first job may have begun.
    std::deque<std::shared_ptr<Job>> jobs;
  };
  struct OwnerQueue {
    OwnerId owner;
    // The sessions of the owner; the session that gets the next turn is at the front.
    std::list<SessionQueue> sessions;
    std::uint32_t begun = 0;
  };

  // Jobs that were cancelled before they began. CallCancelled calls their work outside the mutex.
  using Ended = std::vector<std::shared_ptr<Job>>;
  static void CallCancelled(const Ended& ended);

  bool MayBegin(const OwnerQueue& user) const KVD_REQUIRES(mutex_);
  // Gives free turns to the next jobs.
  void Dispatch() KVD_REQUIRES(mutex_);
  bool GiveOneTurn() KVD_REQUIRES(mutex_);
  bool GiveTurn(OwnerQueue& user, SessionQueue& session) KVD_REQUIRES(mutex_);
  // Adds an idle thread. False: the system refused.
  bool StartThread() KVD_REQUIRES(mutex_);
  bool BeginOn(const std::shared_ptr<Job>& job) KVD_REQUIRES(mutex_);
  void Remove(const Job& job) KVD_REQUIRES(mutex_);
  template <class Matches>
  bool CancelWhere(SessionId session, const Matches& matches, Ended* ended) KVD_REQUIRES(mutex_);

  // ---- called by a job's thread
  void Yield(Job& job);
  void CallWithoutTurn(Job& job, const std::function<void()>& call);
  void AwaitTurn(Job& job) KVD_REQUIRES(mutex_);
  void RunThread(Thread& thread);

  const Options options_;
  Mutex mutex_;
  bool stops_ KVD_GUARDED_BY(mutex_) = false;
  std::list<OwnerQueue> owners_
      KVD_GUARDED_BY(mutex_);  // the owners; the owner that gets the next turn is at the front
  std::uint32_t turns_taken_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint32_t begun_ KVD_GUARDED_BY(mutex_) = 0;
  std::list<std::unique_ptr<Thread>> threads_ KVD_GUARDED_BY(mutex_);
  std::vector<Thread*> idle_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
