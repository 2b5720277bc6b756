// VerbRequest: a submission as the service handles it. Call: a VerbRequest with its typed
// arguments. Outcome: how the submission is answered.
//
// VerbRequest and Call are plain views that are valid while Service::Handle runs. The arguments in
// a Call have passed wire::ValidateSubmission. Before a handler is called, the service has checked
// the caller's access to the sequences that the arguments name, as the verb's row requires
// (daemon/sessions/owners.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/work_control.h"
#include "daemon/schedule/computing_request.h"
#include "daemon/sessions/owners.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/shares.h"
#include "daemon/sessions/wire_reply.h"
#include "engine/memory/memory.h"
#include "shm/verb_table.h"

namespace kvd {

struct VerbRequest {
  const std::shared_ptr<Session>& session;
  const wire::Submission& submission;
  std::span<const std::byte> payload;
  Caller caller;
  ReceivedSubmission& received;
  SharedShare share;  // the share that counts the payload

  bool has(wire::SubmissionFlags flag) const { return (submission.flags & flag) != 0; }
  bool is_again() const { return has(wire::kFlagRetry); }
  // TakePayload moves the payload out, for a worker's call that outlives the VerbRequest. After
  // TakePayload, `payload` is invalid.
  std::vector<std::byte> TakePayload() const { return std::move(received.payload); }
  RequestId id() const { return static_cast<RequestId>(submission.request); }
  // Returns the tag of the commit that completes the request.
  RequestTag applied() const {
    return {.session = caller.session, .request = id(), .kind = submission.verb};
  }
  // Returns the tag of a commit that does a part of the request.
  RequestTag part() const {
    RequestTag part = applied();
    part.completes = false;
    return part;
  }
  // Returns the origin of a request that the scheduler answers.
  RequestOrigin origin() const {
    return {.session = session,
            .request = id(),
            .verb = static_cast<wire::Verb>(submission.verb),
            .wants_progress = has(wire::kFlagProgress),
            .share = share};
  }
};

// The type of an Outcome says how a submission is answered: a WireReply is sent at once, a WorkCall
// computes the reply on a worker, and with AnsweredByScheduler the scheduler sends the reply.
struct AnsweredByScheduler {};
struct WorkCall {
  // `call` computes the reply. A call may take long, but returns soon after its WorkControl has
  // returned kCancelled.
  std::function<WireReply(WorkControl&)> call;
  // If the connection is closed, `abandoned` is called on the io thread and the reply is not sent.
  // `abandoned` may be empty.
  std::function<void()> abandoned{};
};
using Outcome = std::variant<WireReply, WorkCall, AnsweredByScheduler>;

template <wire::VerbArguments ArgsType>
struct Call : VerbRequest {
  using Args = ArgsType;
  Args args;
  // The sequences that the arguments name; `sequence2` is set only if the arguments name two
  // sequences.
  SequenceInfo sequence{};
  SequenceInfo sequence2{};
  // The error of looking up the sequences. `found` can be an error only in a retry of a verb with
  // wire::Resend::kHandler, because the handler of such a verb itself checks whether the request
  // was applied. `found` is Ok in all other calls.
  Status found{};
};

}  // namespace kvd
