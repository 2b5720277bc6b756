// Service: policy. What each verb means, who may use it on what, and which errors name what is
// wrong.
//
// Owner: the server; its methods belong to the io thread. Metadata verbs act on the engine's memory
// directly (locked inside, microseconds) and never wait for a computing step; what takes long (text,
// files) is returned as a call for workers; computing verbs go to the scheduler. Arguments of submissions have passed wire::ValidateSubmission and are a private copy;
// everything else about them is checked here, before anything changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/acquired_sequence.h"
#include "daemon/held_bytes.h"
#include "daemon/permissions.h"
#include "daemon/quotas.h"
#include "daemon/replay_request.h"
#include "daemon/reply.h"
#include "daemon/sampler_states.h"
#include "daemon/saved_states.h"
#include "daemon/scheduler.h"
#include "daemon/session.h"
#include "daemon/state_upload.h"
#include "engine/engine.h"

namespace kvd {

class PromptCache;
struct GenerationState;

struct PrefixOptions {
  bool is_shared = true;  // prompts take what other sequences hold
  // Sequences that may stay when their clients let them go; 0: none does.
  std::uint32_t retained_max = std::numeric_limits<std::uint32_t>::max();
};

class Service {
 public:
  struct Surroundings {
    std::function<std::uint32_t(SessionId)> pid_of_session;  // 0: unknown
    std::function<std::uint32_t()> session_count;
    std::function<std::uint32_t(std::uint32_t uid)> requests_in_flight;  // of all its sessions
    SavedStates* saved_states = nullptr;  // null: nothing can be saved
    PromptCache* prompt_cache = nullptr;  // null: there is none
  };

  // All outlive the service.
  Service(Engine& engine, Scheduler& scheduler, const QuotaPolicy& quotas,
          Surroundings surroundings, const PrefixOptions& prefixes = {});

  // `charge`: of the payload, which is taken where it is needed longer.
  Outcome Handle(const std::shared_ptr<Session>& session, ReceivedSubmission& received,
                 HeldCharge charge = {});
  // What the daemon holds for that uid.
  std::shared_ptr<HeldAccount> AccountOf(std::uint32_t uid) { return held_.AccountOf(uid); }
  // How many tokens a submission may carry.
  std::uint64_t tokens_max() const { return tokens_max_; }

  // The client is gone for good: its requests are cancelled, and what its private sequences hold of
  // plain text stays as retained prefixes.
  void SessionClosed(SessionId session);
  // The connection is gone, and the client may come back: its requests are cancelled, and what they
  // have committed waits for it.
  void SessionLost(SessionId session);

 private:
  struct Request {
    const std::shared_ptr<Session>& session;
    const wire::Submission& submission;
    std::span<const std::byte> payload;
    Caller caller;
    ReceivedSubmission& received;
    SharedCharge charge;  // of the payload

    SequenceHandle sequence() const { return static_cast<SequenceHandle>(submission.sequence); }
    SequenceHandle sequence2() const { return static_cast<SequenceHandle>(submission.sequence2); }
    bool has(wire::SubmissionFlags flag) const { return (submission.flags & flag) != 0; }
    // The payload for a call that outlives the request. `payload` is of no use then.
    std::vector<std::byte> TakePayload() const { return std::move(received.payload); }
    RequestId id() const { return static_cast<RequestId>(submission.request); }
    // As what it is remembered by the commit that applies it.
    RequestTag applied() const {
      return {.session = caller.session, .request = id(), .kind = submission.verb};
    }
  };

  // How far a computing request came before it was sent again.
  struct Progress {
    std::uint32_t first_cell = 0;    // of the sequence, before the request
    std::size_t done = 0;            // cells it has computed
    std::vector<TokenId> predicted;  // of those, the ones behind its own tokens
    bool is_known = false;           // an earlier attempt has computed some
  };

  Result<Outcome> Dispatch(const Request& request);
  // A call for that session has ended after its connection: what it made goes with a session that
  // has ended.
  void Abandoned(SessionId session);
  // Retains or drops the private sequences of that session, and forgets it.
  void LetGoOf(SessionId session);

  // ---- what a caller may reach
  Result<SequenceInfo> FindReadable(const Request& request, const char* field,
                                    SequenceHandle handle) const;
  // Also not being computed (kBusy). Nothing has changed yet: see AcquireForWrite.
  Result<SequenceInfo> FindChangeable(const Request& request, const char* field,
                                      SequenceHandle handle) const;
  // Last before the change, when all else is checked. A retained sequence counts for the caller from
  // then on. Errors: kNoSpace (its quotas), kNotFound (evicted meanwhile).
  Result<AcquiredSequence> AcquireForWrite(const Request& request, const SequenceInfo& info);
  SequenceOwner OwnerFor(const Caller& caller) const;

  // ---- verbs_sequences.cc
  Result<Reply> Create(const Request& request);
  Result<Outcome> Fork(const Request& request);
  Result<Reply> Drop(const Request& request);
  Result<Outcome> CopyRange(const Request& request);
  Result<Outcome> RemoveRange(const Request& request);
  Result<Reply> Keep(const Request& request);
  Result<Reply> Clear(const Request& request);
  Result<Reply> Add(const Request& request);
  Result<Reply> Query(const Request& request);
  Result<Outcome> List(const Request& request);
  Result<Outcome> ReadTokens(const Request& request);
  // ---- verbs_replays.cc: the same where tokens have to be computed again
  Result<Outcome> RemoveWithReplay(const Request& request, SequenceHandle sequence, PosRange range);
  Result<Outcome> ForkWithReplay(const Request& request, std::uint32_t cell_count,
                                 std::size_t count);
  Result<Outcome> CopyWithReplay(const Request& request, PosRange range);
  // `applied`: what the cut itself is remembered as.
  Result<Outcome> SubmitReplay(const Request& request, SequenceHandle sequence, PosRange range,
                               const RequestTag& applied, AfterReplay after);
  // ---- verbs_prefixes.cc
  Result<Reply> Retain(const Request& request);
  Result<Reply> Pin(const Request& request);
  Result<Reply> DropRetained(const Request& request);
  // How a prompt for that sequence is to come by its cells.
  OpeningState OpeningFor(const Request& request, const SequenceInfo& info) const;
  // Lets go of a sequence; whether it stays as a retained one.
  Result<bool> LetGo(SequenceHandle handle, const RequestTag& applied = {});
  // ---- verbs_retried.cc: requests that are sent again
  // The answer that it had, if it was applied. Errors: kConflict.
  Result<std::optional<Reply>> AnswerAgain(const Request& request);
  // Drops the sequences that it has made.
  void DropPartsOf(const Request& request);
  Result<Reply> RememberedReply(const Request& request, const AppliedReply& applied) const;
  // What it has committed of `sequence` before. Errors: kConflict.
  Result<Progress> ProgressOf(const Request& request, const SequenceInfo& info,
                              std::span<const TokenId> prompt) const;
  // ---- verbs_snapshots.cc
  Result<Reply> Publish(const Request& request);
  Result<Reply> Unpublish(const Request& request);
  Result<Reply> Attach(const Request& request);
  Result<Reply> Snapshots(const Request& request);
  // ---- verbs_saved.cc
  static FileAttempt AttemptOf(const Request& request);
  Result<SavedStates*> FindStore() const;  // kUnsupported: there is none
  // `sequences`: or why they cannot be saved, unless that was done already.
  Result<Outcome> SaveSequences(const Request& request,
                                Result<std::vector<SequenceHandle>> sequences);
  Result<Outcome> Save(const Request& request);
  Result<Outcome> SaveAll(const Request& request);
  Result<Outcome> Load(const Request& request);
  Result<Outcome> Saved(const Request& request);
  Result<Outcome> RemoveSaved(const Request& request);
  // ---- verbs_text.cc
  Result<Outcome> Tokenize(const Request& request);
  Result<Outcome> Detokenize(const Request& request);
  Result<Outcome> Chat(const Request& request);
  Result<Outcome> ReadText(const Request& request);
  // ---- verbs_computing.cc
  Result<Outcome> Decode(const Request& request);
  Result<Outcome> Generate(const Request& request);
  // Where kContinue takes the logits from.
  Status PrepareContinue(const Request& request, const SequenceInfo& info, GenerationState* state);
  Result<Outcome> Divide(const Request& request);
  Result<Outcome> Defrag(const Request& request);
  Result<Outcome> Embed(const Request& request);
  Result<Outcome> Encode(const Request& request);
  Result<Reply> Cancel(const Request& request);
  // Room in the pool at all; what is free and the uid's share are asked for before the first step.
  Status CheckTokenCount(std::uint64_t tokens) const;
  // Error: kInvalidArgument (p0 is not the next position, or positions would overflow).
  Result<Pos> CheckNextPos(const SequenceInfo& info, std::int64_t p0, std::size_t tokens) const;
  // ---- verbs_state.cc
  Result<Outcome> ExportState(const Request& request);
  Result<Reply> UploadState(const Request& request);
  Result<Outcome> ImportState(const Request& request);
  Result<Reply> ImportUploaded(const Session& session, const SequenceOwner& owner,
                               const RequestTag& applied, StateUpload& upload, WorkControl& work);
  std::vector<SequenceHandle> SequencesOf(SessionId session) const;
  // Of an export or an upload.
  std::uint64_t StateBytesMax(std::uint32_t uid) const;
  // ---- verbs_info.cc
  Result<Outcome> Info(const Request& request);
  Result<Reply> Cache() const;
  Result<Reply> Profile() const;

  Engine& engine_;
  Memory& memory_;
  Scheduler& scheduler_;
  const QuotaPolicy& quotas_;
  const Surroundings surroundings_;
  const PrefixOptions prefixes_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  SamplerStates samplers_;
  std::vector<SequenceHandle> fork_handles_;  // scratch of Fork
  std::map<SessionId, StateUpload> uploads_;  // states that are being sent
  HeldBytes held_;
  const std::uint64_t tokens_max_;
};

// [p0, p1) of a submission: a negative begin is 0, a negative end is open. Error: kInvalidArgument
// (p0 > p1).
Result<PosRange> RangeOf(const wire::Submission& submission);

}  // namespace kvd
