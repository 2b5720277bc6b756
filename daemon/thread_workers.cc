// A session's queue is a candidate for a turn while its first piece has begun and waits, or may
// begin. A session that gets a turn moves to the end of its uid's sessions, and the uid to the end of
// all. Threads stay when their piece has ended, to begin the next one; there are never more than pieces
// may have begun.
#include "daemon/thread_workers.h"

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

class ThreadWorkers::Piece final : public WorkControl {
 public:
  Piece(ThreadWorkers& workers, const WorkOwner& whose, RequestId number, Work call)
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
  Clock::time_point slice_end{};  // of its own thread, while it has a turn

  // Guarded by the workers' mutex.
  bool has_begun = false;
  bool has_turn = false;
  bool is_blocked = false;  // wants no turn now
  CondVar turn_came;

 private:
  ThreadWorkers& workers_;
};

class ThreadWorkers::Thread {
 public:
  // Guarded by the workers' mutex.
  std::shared_ptr<Piece> piece;
  CondVar piece_came;

  std::thread thread;
};

ThreadWorkers::ThreadWorkers() : ThreadWorkers(Options{}) {}
ThreadWorkers::ThreadWorkers(const Options& options) : options_(options) {}
ThreadWorkers::~ThreadWorkers() { Stop(); }

void ThreadWorkers::Queue(const WorkOwner& owner, RequestId request, Work work) {
  auto piece = std::make_shared<Piece>(*this, owner, request, std::move(work));
  const MutexLock lock(mutex_);
  if (stops_) return;
  auto uid = std::ranges::find(uids_, owner.uid, &UidQueue::uid);
  if (uid == uids_.end())
    uid = uids_.insert(uids_.end(), UidQueue{.uid = owner.uid, .sessions = {}});
  auto session = std::ranges::find(uid->sessions, owner.session, &SessionQueue::session);
  if (session == uid->sessions.end()) {
    session = uid->sessions.insert(uid->sessions.end(),
                                   SessionQueue{.session = owner.session, .pieces = {}});
  }
  session->pieces.push_back(std::move(piece));
  Dispatch();
}

bool ThreadWorkers::MayBegin(const UidQueue& uid) const {
  return uid.begun == 0 || (uid.begun < options_.begun_per_uid_max && begun_ < options_.begun_max);
}

bool ThreadWorkers::BeginOn(const std::shared_ptr<Piece>& piece) {
  if (idle_.empty()) {
    auto thread = std::make_unique<Thread>();
    try {
      thread->thread = std::thread([this, &own = *thread] { RunThread(own); });
    } catch (const std::system_error&) {
      return false;  // begun when another piece has ended
    }
    idle_.push_back(thread.get());
    threads_.push_back(std::move(thread));
  }
  Thread* const thread = idle_.back();
  idle_.pop_back();
  thread->piece = piece;
  thread->piece_came.NotifyOne();
  return true;
}

bool ThreadWorkers::GiveTurn(UidQueue& uid, SessionQueue& session) {
  const std::shared_ptr<Piece>& piece = session.pieces.front();
  if (piece->has_turn || piece->is_blocked) return false;
  if (!piece->has_begun) {
    if (!MayBegin(uid) || !BeginOn(piece)) return false;
    piece->has_begun = true;
    ++uid.begun;
    ++begun_;
  }
  piece->has_turn = true;
  ++turns_taken_;
  piece->turn_came.NotifyOne();
  return true;
}

bool ThreadWorkers::GiveOneTurn() {
  for (auto uid = uids_.begin(); uid != uids_.end(); ++uid) {
    for (auto session = uid->sessions.begin(); session != uid->sessions.end(); ++session) {
      if (!GiveTurn(*uid, *session)) continue;
      uid->sessions.splice(uid->sessions.end(), uid->sessions, session);
      uids_.splice(uids_.end(), uids_, uid);
      return true;
    }
  }
  return false;
}

void ThreadWorkers::Dispatch() {
  while ((stops_ || turns_taken_ < options_.turns) && GiveOneTurn()) {
  }
}

void ThreadWorkers::Yield(Piece& piece) {
  const MutexLock lock(mutex_);
  piece.slice_end = Clock::now() + options_.slice;
  if (stops_) return;
  piece.has_turn = false;
  --turns_taken_;
  // Those that wait come first, as this one got its last turn after them; without any it is next.
  AwaitTurn(piece);
}

void ThreadWorkers::AwaitTurn(Piece& piece) {
  Dispatch();
  while (!piece.has_turn) piece.turn_came.Wait(mutex_);
  piece.slice_end = Clock::now() + options_.slice;
}

void ThreadWorkers::CallWithoutTurn(Piece& piece, const std::function<void()>& call) {
  {
    const MutexLock lock(mutex_);
    piece.has_turn = false;
    piece.is_blocked = true;
    --turns_taken_;
    Dispatch();
  }
  call();
  const MutexLock lock(mutex_);
  piece.is_blocked = false;
  AwaitTurn(piece);
}

void ThreadWorkers::RunThread(Thread& thread) {
  // The io thread, which may have a better priority, starts threads; they do not inherit it.
  constexpr id_t kThisThread = 0;
  (void)::setpriority(PRIO_PROCESS, kThisThread, 0);
  MutexLock lock(mutex_);
  for (;;) {
    while (thread.piece == nullptr && !stops_) thread.piece_came.Wait(mutex_);
    if (thread.piece == nullptr) return;
    const std::shared_ptr<Piece> piece = thread.piece;
    lock.Unlock();
    piece->slice_end = Clock::now() + options_.slice;
    piece->work(*piece);
    piece->work = {};  // what it holds goes before the next piece of its session begins
    lock.Lock();
    thread.piece = nullptr;
    idle_.push_back(&thread);
    Remove(*piece);
    --turns_taken_;
    Dispatch();
  }
}

// REQUIRES: it has begun, so it is the first of its session.
void ThreadWorkers::Remove(const Piece& piece) {
  const auto uid = std::ranges::find(uids_, piece.owner.uid, &UidQueue::uid);
  const auto session =
      std::ranges::find(uid->sessions, piece.owner.session, &SessionQueue::session);
  session->pieces.pop_front();
  --uid->begun;
  --begun_;
  if (session->pieces.empty()) uid->sessions.erase(session);
  if (uid->sessions.empty()) uids_.erase(uid);
}

template <class Matches>
bool ThreadWorkers::CancelWhere(SessionId session, const Matches& matches, Ended* ended) {
  bool has_found = false;
  for (auto uid = uids_.begin(); uid != uids_.end();) {
    const auto queue = std::ranges::find(uid->sessions, session, &SessionQueue::session);
    if (queue != uid->sessions.end()) {
      std::erase_if(queue->pieces, [&](const std::shared_ptr<Piece>& piece) {
        if (!matches(*piece)) return false;
        has_found = true;
        piece->is_cancelled.store(true, std::memory_order_relaxed);
        if (!piece->has_begun) ended->push_back(piece);
        return !piece->has_begun;
      });
      if (queue->pieces.empty()) uid->sessions.erase(queue);
    }
    uid = uid->sessions.empty() ? uids_.erase(uid) : std::next(uid);
  }
  return has_found;
}

void ThreadWorkers::CallCancelled(const Ended& ended) {
  CancelledControl control;
  for (const std::shared_ptr<Piece>& piece : ended) piece->work(control);
}

void ThreadWorkers::CancelSession(SessionId session) {
  Ended ended;
  {
    const MutexLock lock(mutex_);
    (void)CancelWhere(session, [](const Piece&) { return true; }, &ended);
  }
  CallCancelled(ended);
}

bool ThreadWorkers::Cancel(SessionId session, RequestId request) {
  Ended ended;
  bool has_found = false;
  {
    const MutexLock lock(mutex_);
    has_found = CancelWhere(
        session, [request](const Piece& piece) { return piece.request == request; }, &ended);
  }
  CallCancelled(ended);
  return has_found;
}

void ThreadWorkers::Stop() {
  std::vector<std::thread*> running;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    for (UidQueue& uid : uids_) {
      for (SessionQueue& session : uid.sessions) {
        for (const auto& piece : session.pieces) piece->is_cancelled.store(true);
        std::erase_if(session.pieces,
                      [](const std::shared_ptr<Piece>& piece) { return !piece->has_begun; });
      }
      std::erase_if(uid.sessions,
                    [](const SessionQueue& session) { return session.pieces.empty(); });
    }
    std::erase_if(uids_, [](const UidQueue& uid) { return uid.sessions.empty(); });
    Dispatch();
    for (const auto& thread : threads_) {
      thread->piece_came.NotifyOne();
      running.push_back(&thread->thread);
    }
  }
  // No thread is added any more.
  for (std::thread* const thread : running) {
    if (thread->joinable()) thread->join();
  }
}

}  // namespace kvd
