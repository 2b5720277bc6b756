// ThreadWorkers: workers that are threads.
//
// Every piece of work that has begun has a thread of its own, but only `turns` of them run at a
// time: one that has had its slice hands its turn on when it calls Continue and others wait, and one
// that waits for a device (Block) has none. Turns go round by uid, then round the sessions of a uid,
// so that a short call never waits for the end of another owner's long one.
//
// Threads: Stop and the destructor belong to the owner; the rest as in workers.h. Invariant: at most
// `turns` pieces hold a turn, and none waits while a turn is free, unless it has to begin and its uid
// has as many threads as it may have.
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/workers.h"
#include "shm/mutex.h"

namespace kvd {

class ThreadWorkers final : public Workers {
 public:
  struct Options {
    std::uint32_t turns = 2;
    std::chrono::microseconds slice{5000};  // 0: a turn is handed on at every Continue
    // Pieces of work that have begun and not ended. A uid may always have one.
    std::uint32_t begun_per_uid_max = 16;
    std::uint32_t begun_max = 64;
  };

  ThreadWorkers();
  explicit ThreadWorkers(const Options& options);
  ~ThreadWorkers() override;

  void Queue(const WorkOwner& owner, RequestId request, Work work) override;
  void CancelSession(SessionId session) override;
  bool Cancel(SessionId session, RequestId request) override;

  // Cancels everything, drops what has not begun, and returns when the rest has ended. Nothing may be
  // queued afterwards.
  void Stop();

 private:
  class Piece;
  class Thread;
  struct SessionQueue {
    SessionId session;
    std::deque<std::shared_ptr<Piece>> pieces;  // the first one may have begun
  };
  struct UidQueue {
    std::uint32_t uid;
    std::list<SessionQueue> sessions;  // whose turn is next at the front
    std::uint32_t begun = 0;
  };

  // What to do with pieces that were cancelled before they began, outside the mutex.
  using Ended = std::vector<std::shared_ptr<Piece>>;
  static void CallCancelled(const Ended& ended);

  bool MayBegin(const UidQueue& uid) const KVD_REQUIRES(mutex_);
  // Gives free turns to the next pieces.
  void Dispatch() KVD_REQUIRES(mutex_);
  bool GiveOneTurn() KVD_REQUIRES(mutex_);
  bool GiveTurn(UidQueue& uid, SessionQueue& session) KVD_REQUIRES(mutex_);
  bool BeginOn(const std::shared_ptr<Piece>& piece) KVD_REQUIRES(mutex_);
  void Remove(const Piece& piece) KVD_REQUIRES(mutex_);
  template <class Matches>
  bool CancelWhere(SessionId session, const Matches& matches, Ended* ended) KVD_REQUIRES(mutex_);

  // Of a piece's thread.
  void Yield(Piece& piece);
  void CallWithoutTurn(Piece& piece, const std::function<void()>& call);
  void AwaitTurn(Piece& piece) KVD_REQUIRES(mutex_);
  void RunThread(Thread& thread);

  const Options options_;
  Mutex mutex_;
  bool stops_ KVD_GUARDED_BY(mutex_) = false;
  std::list<UidQueue> uids_ KVD_GUARDED_BY(mutex_);  // whose turn is next at the front
  std::uint32_t turns_taken_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint32_t begun_ KVD_GUARDED_BY(mutex_) = 0;
  std::list<std::unique_ptr<Thread>> threads_ KVD_GUARDED_BY(mutex_);
  std::vector<Thread*> idle_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
