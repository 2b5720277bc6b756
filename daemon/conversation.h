// Conversation: the io thread's side of one session: doorbells in, submissions handled in order,
// answers out.
//
// Owner: the server. io thread only. Answers of metadata verbs keep the order of their submissions:
// while one waits for room in the client's segments, or for the worker thread, the next submission
// stays in its ring, and the client alone waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daemon/io_loop.h"
#include "daemon/reply.h"
#include "daemon/scheduler.h"
#include "daemon/service.h"
#include "daemon/session.h"

namespace kvd {

class Conversation {
 public:
  // `closed` is called once, when the client has hung up or broken the protocol (`why` names how);
  // the owner then destroys the conversation, not before the call returns. Everything given
  // outlives the conversation.
  struct Parts {
    IoLoop& loop;
    IoLoop& worker;
    IoLoop& files;
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
  };
  // What the worker may still hold when the conversation is over.
  struct Mailbox {
    Conversation* conversation = nullptr;
  };

  // Takes a portion of the bells that have come; what recv(2) returned.
  ssize_t TakeBells();
  void OnReadable();
  // One look; true if anything was done.
  Result<bool> PumpOnce();
  void HandleSubmission();
  // Has the call made on that thread. `abandoned` (may be empty): see FileCall.
  void HandleOn(IoLoop& thread, std::function<Reply()> call, std::function<void()> abandoned);
  void Answer(Reply reply);
  bool SendPending();  // true: nothing waits any more
  void Close(const Error& why);

  const Parts parts_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Mailbox> mailbox_;
  ReceivedSubmission received_;
  std::optional<Pending> pending_;
  bool on_worker_ = false;  // pending_ awaits its contents
  bool closed_ = false;
  bool said_goodbye_ = false;
  std::unique_ptr<IoLoop::Handle> retry_;
  std::unique_ptr<IoLoop::Handle> watch_;
};

}  // namespace kvd
