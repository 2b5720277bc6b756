// VerbRequest: a submission as the service handles it; Call: the same with its typed arguments.
//
// Plain views, valid while Service::Handle runs. Arguments have passed wire::ValidateSubmission. Of
// the sequences that they name, what the row of the verb asks for was checked (daemon/permissions.h)
// before a handler sees them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/permissions.h"
#include "daemon/session.h"
#include "daemon/shares.h"
#include "engine/memory/memory.h"
#include "shm/verb_table.h"

namespace kvd {

struct VerbRequest {
  const std::shared_ptr<Session>& session;
  const wire::Submission& submission;
  std::span<const std::byte> payload;
  Caller caller;
  ReceivedSubmission& received;
  SharedShare share;  // for the payload

  bool has(wire::SubmissionFlags flag) const { return (submission.flags & flag) != 0; }
  bool is_again() const { return has(wire::kFlagRetry); }
  // The payload for a call that outlives the request. `payload` is of no use then.
  std::vector<std::byte> TakePayload() const { return std::move(received.payload); }
  RequestId id() const { return static_cast<RequestId>(submission.request); }
  // As what it is remembered by the commit that applies it.
  RequestTag applied() const {
    return {.session = caller.session, .request = id(), .kind = submission.verb};
  }
  // A commit on the way there.
  RequestTag part() const {
    RequestTag part = applied();
    part.completes = false;
    return part;
  }
  // As the scheduler answers it.
  RequestOrigin origin() const {
    return {.session = session,
            .request = id(),
            .verb = static_cast<wire::Verb>(submission.verb),
            .wants_progress = has(wire::kFlagProgress),
            .share = share};
  }
};

template <wire::VerbArguments ArgsType>
struct Call : VerbRequest {
  using Args = ArgsType;
  Args args;
  // What the arguments name; the second one where they name two.
  SequenceInfo sequence{};
  SequenceInfo sequence2{};
  // Why `sequence` is not there: of a request that is sent again and whose handler looks itself
  // whether it was applied (wire::Resend::kHandler). Ok for all others.
  Status found{};
};

}  // namespace kvd
