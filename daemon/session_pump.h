// SessionPump: the io thread's side of one session. The SessionPump receives doorbells, handles
// submissions in order and sends the answers.
//
// Owner: the server. io thread only. Answers of metadata verbs keep the order of their submissions:
// while one answer waits for room in the client's segments or for a worker, the next submission
// stays in the ring, so that only this client waits. A kCancel that waits in the ring behind the
// request that it cancels takes effect at once; its answer is sent in the order of the submissions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/process/io_loop.h"
#include "daemon/process/workers.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/wire_reply.h"
#include "daemon/verbs/service.h"

namespace kvd {

class SessionPump {
 public:
  // `closed` is called once, when the client has closed the connection or violated the protocol
  // (`why` is the reason). After the call of `closed`, the owner destroys the pump, but
  // only when the call has returned. All objects referred to by Parts outlive the pump.
  struct Parts {
    IoLoop& loop;
    Workers& workers;
    Service& service;
    Scheduler& scheduler;
    std::function<void(SessionId, const Error& why)> closed;
    std::function<void(SessionId)>
        // `pump_wanted` posts a call of Pump for the session, if the session still exists.
        pump_wanted;
  };

  SessionPump(const Parts& parts, std::shared_ptr<Session> session);
  ~SessionPump();

  const std::shared_ptr<Session>& session() const { return session_; }
  // Returns whether the client has sent the goodbye byte and so will not reconnect. HasSaidGoodbye
  // reads the unread bytes of the socket.
  bool HasSaidGoodbye();

  // Handles all submissions, released output and read completions of the client since the last
  // call. Additional calls of Pump are harmless.
  void Pump();

 private:
  // An answer whose output is not sent completely.
  struct Pending {
    RequestId request{};
    std::uint16_t verb = 0;
    WireReply reply{};
    std::size_t sent_bytes = 0;
    std::size_t piece_bytes = 0;
  };
  // A pointer to the pump for the calls of workers, which may end after the pump
  // has ended; the pointer is null when the pump has ended.
  struct Mailbox {
    SessionPump* pump = nullptr;
  };

  // Reads a portion of the doorbells that have arrived. Returns the result of recv(2).
  ssize_t TakeBells();
  void OnReadable();
  // Handles a limited number of submissions. Returns true if the limit was reached, so that more
  // submissions may be waiting.
  Result<bool> PumpOnce();
  // Takes the next submission. Returns false if no submission can be taken at the moment.
  Result<bool> TakeSubmission();
  void HandleSubmission();
  // Queues the call for the workers.
  void Queue(WorkCall work);
  // Searches the waiting submissions for kCancels of the request that a worker is running.
  Status LookForCancels();
  // Returns whether the submission is a kCancel that LookForCancels has acted on, and removes the
  // cancelled request from acted_on_.
  bool TakeActedOn(const wire::Submission& submission);
  void Answer(WireReply reply);
  // Counts the unsent output for the client's owner. If the output exceeds the owner's share, the
  // answer is replaced by the error kNoSpace.
  void TakeShareOfPending();
  bool SendPending();  // returns true if the whole answer is sent
  void Close(const Error& why);

  const Parts parts_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Mailbox> mailbox_;
  ReceivedSubmission received_;
  Share received_share_;  // the share that counts the payload of received_
  std::optional<Pending> pending_;
  bool in_work_ = false;  // true: a worker computes the answer in pending_
  // Number of waiting submissions that LookForCancels has read.
  std::uint32_t submissions_seen_ = 0;
  // The requests named by kCancels that still wait in the ring and were acted on.
  std::vector<RequestId> acted_on_;
  bool closed_ = false;
  bool said_goodbye_ = false;
  std::unique_ptr<IoLoop::Handle> retry_;
  std::unique_ptr<IoLoop::Handle> watch_;
};

}  // namespace kvd
