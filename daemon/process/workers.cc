// A session's queue is a candidate for a turn if its first job waits for a turn or may begin. A
// session that gets a turn moves to the end of its owner's sessions, and its owner moves to the end
// of all owners. A thread whose job has ended waits for a later job, so there are never more
// threads than jobs that may have begun at a time. The first thread starts before the first job, so
// that work is done even if no further thread can be started.
#include "daemon/process/workers.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

namespace kvd {
namespace {

using Clock = std::chrono::steady_clock;

Status CheckWanted(bool is_cancelled) {
  if (!is_cancelled) return {};
  return Fail(Code::kCancelled, "cancelled");
}

class CancelledControl final : public WorkControl {
 public:
  Status Continue() override { return CheckWanted(true); }
};

}  // namespace

class ThreadWorkers::Job final : public WorkControl {
 public:
  Job(ThreadWorkers& workers, const WorkOwner& whose, RequestId number, Work call)
      : owner(whose), request(number), work(std::move(call)), workers_(workers) {}

  Status Continue() override {
    if (!is_cancelled.load(std::memory_order_relaxed) && Clock::now() >= slice_end) {
      workers_.Yield(*this);
    }
    return CheckWanted(is_cancelled.load(std::memory_order_relaxed));
  }

  void Block(const std::function<void()>& call) override { workers_.CallWithoutTurn(*this, call); }

  const WorkOwner owner;
  const RequestId request;
  Work work;
  std::atomic<bool> is_cancelled{false};
  // End of the job's time slice; only the job's own thread uses it, while the job has a turn.
  Clock::time_point slice_end{};

  // The following members are guarded by the workers' mutex.
  bool has_begun = false;
  bool has_turn = false;
  bool is_blocked = false;  // true: the job is in a call of Block and wants no turn
  CondVar turn_came;

 private:
  ThreadWorkers& workers_;
};

class ThreadWorkers::Thread {
 public:
  // The following members are guarded by the workers' mutex.
  std::shared_ptr<Job> job;
  CondVar piece_came;

  std::thread thread;
};

ThreadWorkers::ThreadWorkers() : ThreadWorkers(Options{}) {}
ThreadWorkers::ThreadWorkers(const Options& options) : options_(options) {
  const MutexLock lock(mutex_);
  (void)StartThread();
}
ThreadWorkers::~ThreadWorkers() { Stop(); }

void ThreadWorkers::Queue(const WorkOwner& owner, RequestId request, Work work) {
  auto job = std::make_shared<Job>(*this, owner, request, std::move(work));
  const MutexLock lock(mutex_);
  if (stops_) return;
  auto user = std::ranges::find(owners_, owner.owner, &OwnerQueue::owner);
  if (user == owners_.end())
    user = owners_.insert(owners_.end(), OwnerQueue{.owner = owner.owner, .sessions = {}});
  auto session = std::ranges::find(user->sessions, owner.session, &SessionQueue::session);
  if (session == user->sessions.end()) {
    session = user->sessions.insert(user->sessions.end(),
                                    SessionQueue{.session = owner.session, .jobs = {}});
  }
  session->jobs.push_back(std::move(job));
  Dispatch();
}

bool ThreadWorkers::MayBegin(const OwnerQueue& user) const {
  return user.begun == 0 ||
         (user.begun < options_.begun_per_owner_max && begun_ < options_.begun_max);
}

bool ThreadWorkers::StartThread() {
  auto thread = std::make_unique<Thread>();
  try {
    thread->thread = std::thread([this, &own = *thread] { RunThread(own); });
  } catch (const std::system_error&) {
    return false;
  }
  idle_.push_back(thread.get());
  threads_.push_back(std::move(thread));
  return true;
}

bool ThreadWorkers::BeginOn(const std::shared_ptr<Job>& job) {
  // If no thread can be started, Dispatch tries again when another job has ended.
  if (idle_.empty() && !StartThread()) return false;
  Thread* const thread = idle_.back();
  idle_.pop_back();
  thread->job = job;
  thread->piece_came.NotifyOne();
  return true;
}

bool ThreadWorkers::GiveTurn(OwnerQueue& user, SessionQueue& session) {
  const std::shared_ptr<Job>& job = session.jobs.front();
  if (job->has_turn || job->is_blocked) return false;
  if (!job->has_begun) {
    if (!MayBegin(user) || !BeginOn(job)) return false;
    job->has_begun = true;
    ++user.begun;
    ++begun_;
  }
  job->has_turn = true;
  ++turns_taken_;
  job->turn_came.NotifyOne();
  return true;
}

bool ThreadWorkers::GiveOneTurn() {
  for (auto user = owners_.begin(); user != owners_.end(); ++user) {
    for (auto session = user->sessions.begin(); session != user->sessions.end(); ++session) {
      if (!GiveTurn(*user, *session)) continue;
      user->sessions.splice(user->sessions.end(), user->sessions, session);
      owners_.splice(owners_.end(), owners_, user);
      return true;
    }
  }
  return false;
}

void ThreadWorkers::Dispatch() {
  while ((stops_ || turns_taken_ < options_.turns) && GiveOneTurn()) {
  }
}

void ThreadWorkers::Yield(Job& job) {
  const MutexLock lock(mutex_);
  job.slice_end = Clock::now() + options_.slice;
  if (stops_) return;
  job.has_turn = false;
  --turns_taken_;
  // A job that yields waits for its next turn behind the other waiting jobs, because the job's
  // session and owner moved to the end when the job got its turn. If no other job waits, the job
  // gets the turn again.
  AwaitTurn(job);
}

void ThreadWorkers::AwaitTurn(Job& job) {
  Dispatch();
  while (!job.has_turn) job.turn_came.Wait(mutex_);
  job.slice_end = Clock::now() + options_.slice;
}

void ThreadWorkers::CallWithoutTurn(Job& job, const std::function<void()>& call) {
  {
    const MutexLock lock(mutex_);
    job.has_turn = false;
    job.is_blocked = true;
    --turns_taken_;
    Dispatch();
  }
  call();
  const MutexLock lock(mutex_);
  job.is_blocked = false;
  AwaitTurn(job);
}

void ThreadWorkers::RunThread(Thread& thread) {
  // A job's thread inherits the priority of the io thread, which may be higher, so the thread
  // resets its priority.
  constexpr id_t kSelf = 0;
  (void)::setpriority(PRIO_PROCESS, kSelf, 0);
  MutexLock lock(mutex_);
  for (;;) {
    while (thread.job == nullptr && !stops_) thread.piece_came.Wait(mutex_);
    if (thread.job == nullptr) return;
    const std::shared_ptr<Job> job = thread.job;
    lock.Unlock();
    job->slice_end = Clock::now() + options_.slice;
    job->work(*job);
    // This assignment frees the call's data before the next job of the session begins.
    job->work = {};
    lock.Lock();
    thread.job = nullptr;
    idle_.push_back(&thread);
    Remove(*job);
    --turns_taken_;
    Dispatch();
  }
}

// REQUIRES: the job has begun, so it is the first job of its session.
void ThreadWorkers::Remove(const Job& job) {
  const auto user = std::ranges::find(owners_, job.owner.owner, &OwnerQueue::owner);
  const auto session = std::ranges::find(user->sessions, job.owner.session, &SessionQueue::session);
  session->jobs.pop_front();
  --user->begun;
  --begun_;
  if (session->jobs.empty()) user->sessions.erase(session);
  if (user->sessions.empty()) owners_.erase(user);
}

template <class Matches>
bool ThreadWorkers::CancelWhere(SessionId session, const Matches& matches, Ended* ended) {
  bool has_found = false;
  for (auto user = owners_.begin(); user != owners_.end();) {
    const auto queue = std::ranges::find(user->sessions, session, &SessionQueue::session);
    if (queue != user->sessions.end()) {
      std::erase_if(queue->jobs, [&](const std::shared_ptr<Job>& job) {
        if (!matches(*job)) return false;
        has_found = true;
        job->is_cancelled.store(true, std::memory_order_relaxed);
        if (!job->has_begun) ended->push_back(job);
        return !job->has_begun;
      });
      if (queue->jobs.empty()) user->sessions.erase(queue);
    }
    user = user->sessions.empty() ? owners_.erase(user) : std::next(user);
  }
  return has_found;
}

void ThreadWorkers::CallCancelled(const Ended& ended) {
  CancelledControl control;
  for (const std::shared_ptr<Job>& job : ended) job->work(control);
}

void ThreadWorkers::CancelSession(SessionId session) {
  Ended ended;
  {
    const MutexLock lock(mutex_);
    (void)CancelWhere(session, [](const Job&) { return true; }, &ended);
  }
  CallCancelled(ended);
}

bool ThreadWorkers::Cancel(SessionId session, RequestId request) {
  Ended ended;
  bool has_found = false;
  {
    const MutexLock lock(mutex_);
    has_found =
        CancelWhere(session, [request](const Job& job) { return job.request == request; }, &ended);
  }
  CallCancelled(ended);
  return has_found;
}

void ThreadWorkers::Stop() {
  std::vector<std::thread*> running;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    for (OwnerQueue& user : owners_) {
      for (SessionQueue& session : user.sessions) {
        for (const auto& job : session.jobs) job->is_cancelled.store(true);
        std::erase_if(session.jobs,
                      [](const std::shared_ptr<Job>& job) { return !job->has_begun; });
      }
      std::erase_if(user.sessions,
                    [](const SessionQueue& session) { return session.jobs.empty(); });
    }
    std::erase_if(owners_, [](const OwnerQueue& user) { return user.sessions.empty(); });
    Dispatch();
    for (const auto& thread : threads_) {
      thread->piece_came.NotifyOne();
      running.push_back(&thread->thread);
    }
  }
  // At this point stops_ is set and all jobs that had not begun are removed, so no thread is added
  // while the threads are joined.
  for (std::thread* const thread : running) {
    if (thread->joinable()) thread->join();
  }
}

}  // namespace kvd
