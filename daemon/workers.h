// Workers: run calls on text and files that would take too long on the io thread.
//
// Owner: main; the workers outlive the server. The io thread calls Queue, CancelSession and Cancel;
// the work runs on other threads. Workers call each piece of work once. The pieces of work of one
// session run one after another in the order in which they were queued, also if they were queued
// through different connections of the session. Retried requests rely on the order of a session's
// work.
#pragma once

#include <cstdint>
#include <functional>

#include "base/ids.h"
#include "base/work_control.h"
#include "engine/memory/owner.h"

namespace kvd {

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

}  // namespace kvd
