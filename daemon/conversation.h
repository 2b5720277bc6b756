// Conversation: the io thread's side of one session: doorbells in, submissions handled in order,
// answers out.
//
// Owner: the server. io thread only. Answers of metadata verbs keep the order of their submissions:
// while one waits for room in the client's segments, or for workers, the next submission stays in its
// ring, and the client alone waits. A kCancel that waits there behind its request is acted on at
// once, and answered in its turn.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/io_loop.h"
#include "daemon/reply.h"
#include "daemon/scheduler.h"
#include "daemon/service.h"
#include "daemon/session.h"
#include "daemon/workers.h"

namespace kvd {

class Conversation {
 public:
  // `closed` is called once, when the client has hung up or broken the protocol (`why` names how);
  // the owner then destroys the conversation, not before the call returns. Everything given
  // outlives the conversation.
  struct Parts {
    IoLoop& loop;
    Workers& workers;
    Service& service;
    Scheduler& scheduler;
    std::function<void(SessionId, const Error& why)> closed;
    std::function<void(SessionId)>
        pump_wanted;  // posts a Pump for the session, if it is still there
  };

  Conversation(const Parts& parts, std::shared_ptr<Session> session);
  ~Conversation();

  const std::shared_ptr<Session>& session() const { return session_; }
  // The client will not come back; looks for what has not been read yet.
  bool HasSaidGoodbye();

  // Looks at everything the client may have done. Idempotent.
  void Pump();

 private:
  // An answer on its way.
  struct Pending {
    wire::Completion completion{};
    std::vector<std::byte> output;
    std::size_t sent_bytes = 0;
    std::size_t piece_bytes = 0;
    SharedShare share;  // null: the output is not counted yet
  };
  // What workers may still hold when the conversation is over.
  struct Mailbox {
    Conversation* conversation = nullptr;
  };

  // Takes a portion of the bells that have come; what recv(2) returned.
  ssize_t TakeBells();
  void OnReadable();
  // One look; true if anything was done.
  Result<bool> PumpOnce();
  // The next submission, unless none can be taken now.
  Result<bool> TakeSubmission();
  void HandleSubmission();
  // Has workers make the call.
  void Queue(WorkCall work);
  // Looks through the submissions that wait for kCancels of the request that is in work.
  Status LookForCancels();
  // Whether it is a kCancel that LookForCancels has acted on; forgets it.
  bool TakeActedOn(const wire::Submission& submission);
  void Answer(Reply reply);
  // Counts what waits of the answer; in its place, if it is too much, the error.
  void TakeShareOfPending();
  bool SendPending();  // true: nothing waits any more
  void Close(const Error& why);

  const Parts parts_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Mailbox> mailbox_;
  ReceivedSubmission received_;
  Share received_share_;  // for its payload
  std::optional<Pending> pending_;
  bool in_work_ = false;                // pending_ awaits its contents
  std::uint32_t submissions_seen_ = 0;  // by LookForCancels, of those that wait
  // Targets of kCancels that wait in the ring and were acted on.
  std::vector<RequestId> acted_on_;
  bool closed_ = false;
  bool said_goodbye_ = false;
  std::unique_ptr<IoLoop::Handle> retry_;
  std::unique_ptr<IoLoop::Handle> watch_;
};

}  // namespace kvd
