// Workers: where calls on text and files are made that would take long on the io thread.
//
// Owner: main; it outlives the server. Queue, CancelSession and Cancel belong to the io thread; work
// runs elsewhere. Each piece of work is called once. One session's pieces run one after another, in
// the order in which they were queued, also across its connections: a request that is sent again
// relies on it.
#pragma once

#include <cstdint>
#include <functional>

#include "shm/ids.h"
#include "shm/work_control.h"

namespace kvd {

// Whose work it is: turns go round by uid, then by session.
struct WorkOwner {
  std::uint32_t uid = 0;
  SessionId session = SessionId::kNone;
};

class Workers {
 public:
  // Begins with `control.Continue()`, and calls it at bounded intervals. Does not throw.
  using Work = std::function<void(WorkControl& control)>;

  virtual ~Workers() = default;

  virtual void Queue(const WorkOwner& owner, RequestId request, Work work) = 0;
  // What it has running ends soon with kCancelled; what it has queued is called at once, here, with
  // a control that says so.
  virtual void CancelSession(SessionId session) = 0;
  // The same for one request; whether it is queued or running.
  virtual bool Cancel(SessionId session, RequestId request) = 0;
};

}  // namespace kvd
