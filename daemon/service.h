// Service: policy. What each verb means, who may use it on what, and which errors name what is
// wrong.
//
// Owner: the server; its methods belong to the io thread. Metadata verbs act on the engine's memory
// directly (locked inside, microseconds) and never wait for a computing step; what takes long (text,
// files) is returned as a call for workers; computing verbs go to the scheduler. Arguments of
// submissions have passed wire::ValidateSubmission and are a private copy; everything else about them
// is checked here, before anything changes.
//
// A verb is an overload of Do, found by the type of its arguments (shm/verb_table.h).
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
#include "daemon/permissions.h"
#include "daemon/replay_request.h"
#include "daemon/reply.h"
#include "daemon/sampler_states.h"
#include "daemon/saved_states.h"
#include "daemon/scheduler.h"
#include "daemon/session.h"
#include "daemon/shares.h"
#include "daemon/state_upload.h"
#include "daemon/verb_call.h"
#include "engine/engine.h"
#include "shm/verb_table.h"

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
    SavedStates* saved_states = nullptr;  // null: nothing can be saved
    PromptCache* prompt_cache = nullptr;  // null: there is none
  };

  // All outlive the service.
  Service(Engine& engine, Scheduler& scheduler, const Shares& shares, Surroundings surroundings,
          const PrefixOptions& prefixes = {});

  // `share`: for the payload, which is taken where it is needed longer.
  Outcome Handle(const std::shared_ptr<Session>& session, ReceivedSubmission& received,
                 Share share = {});
  // How many tokens a submission may carry.
  std::uint64_t tokens_max() const { return tokens_max_; }

  // The client is gone for good: its requests are cancelled, and what its private sequences hold of
  // plain text stays as retained prefixes.
  void SessionClosed(SessionId session);
  // The connection is gone, and the client may come back: its requests are cancelled, and what they
  // have committed waits for it.
  void SessionLost(SessionId session);

 private:
  // How far a computing request came before it was sent again.
  struct Progress {
    std::uint32_t first_cell = 0;    // of the sequence, before the request
    std::size_t done = 0;            // cells it has computed
    std::vector<TokenId> predicted;  // of those, the ones behind its own tokens
    bool is_known = false;           // an earlier attempt has computed some
  };

  // ---- service.cc: one way for all verbs
  // Runs the verb of row kIndex of the table: answers what was applied before, looks up what the
  // arguments name, and calls its handler.
  template <std::size_t kIndex>
  Result<Outcome> Run(const VerbRequest& request);
  // The sequence of an argument, if the caller has that access to it.
  Result<SequenceInfo> Find(const VerbRequest& request, const wire::SlotRule& rule,
                            SequenceHandle handle) const;
  // A call for that session has ended after its connection: what it made goes with a session that
  // has ended.
  void Abandoned(SessionId session);
  // Retains or drops the private sequences of that session, and forgets it.
  void LetGoOf(SessionId session);

  // ---- what a caller may reach
  // Last before the change, when all else is checked. A retained sequence counts for the caller from
  // then on. Errors: kNoSpace (its shares), kNotFound (evicted meanwhile).
  Result<AcquiredSequence> AcquireForWrite(const VerbRequest& request, const SequenceInfo& info);
  SequenceOwner OwnerFor(const Caller& caller) const;

  // ---- the handlers, by the type of the arguments. Each returns its reply, or an Outcome where
  // workers or the scheduler may answer.
  // verbs_sequences.cc
  Result<wire::CreateReply> Do(const Call<wire::CreateArgs>& call);
  Result<Outcome> Do(const Call<wire::ForkArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::DropArgs>& call);
  Result<Outcome> Do(const Call<wire::CopyRangeArgs>& call);
  Result<Outcome> Do(const Call<wire::RemoveRangeArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::KeepArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::ClearArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::AddArgs>& call);
  Result<wire::QueryReply> Do(const Call<wire::QueryArgs>& call);
  Result<Outcome> Do(const Call<wire::ListArgs>& call);
  Result<Outcome> Do(const Call<wire::ReadTokensArgs>& call);
  // verbs_prefixes.cc
  Result<wire::RetainReply> Do(const Call<wire::RetainArgs>& call);
  Result<wire::PinReply> Do(const Call<wire::PinArgs>& call);
  Result<wire::DropRetainedReply> Do(const Call<wire::DropRetainedArgs>& call);
  // verbs_snapshots.cc
  Result<wire::PublishReply> Do(const Call<wire::PublishArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::UnpublishArgs>& call);
  Result<wire::ForkedReply> Do(const Call<wire::AttachArgs>& call);
  Result<wire::ListReply<wire::SnapshotEntry>> Do(const Call<wire::SnapshotsArgs>& call);
  // verbs_log.cc
  Result<wire::ListReply<wire::LogRecord>> Do(const Call<wire::LogArgs>& call);
  // verbs_why.cc
  Result<Outcome> Do(const Call<wire::WhyArgs>& call);
  // verbs_saved.cc
  Result<Outcome> Do(const Call<wire::SaveArgs>& call);
  Result<Outcome> Do(const Call<wire::SaveAllArgs>& call);
  Result<Outcome> Do(const Call<wire::LoadArgs>& call);
  Result<Outcome> Do(const Call<wire::SavedArgs>& call);
  Result<Outcome> Do(const Call<wire::RemoveSavedArgs>& call);
  // verbs_text.cc
  Result<Outcome> Do(const Call<wire::TokenizeArgs>& call);
  Result<Outcome> Do(const Call<wire::DetokenizeArgs>& call);
  Result<Outcome> Do(const Call<wire::ChatArgs>& call);
  Result<Outcome> Do(const Call<wire::ReadTextArgs>& call);
  // verbs_computing.cc
  Result<Outcome> Do(const Call<wire::DecodeArgs>& call);
  Result<Outcome> Do(const Call<wire::GenerateArgs>& call);
  Result<Outcome> Do(const Call<wire::DivideArgs>& call);
  Result<Outcome> Do(const Call<wire::DefragArgs>& call);
  Result<Outcome> Do(const Call<wire::EmbedArgs>& call);
  Result<Outcome> Do(const Call<wire::EncodeArgs>& call);
  Result<wire::CancelReply> Do(const Call<wire::CancelArgs>& call);
  // verbs_state.cc
  Result<Outcome> Do(const Call<wire::ExportStateArgs>& call);
  Result<wire::UploadStateReply> Do(const Call<wire::UploadStateArgs>& call);
  Result<Outcome> Do(const Call<wire::ImportStateArgs>& call);
  // verbs_info.cc
  Result<wire::PingReply> Do(const Call<wire::PingArgs>& call);
  Result<Outcome> Do(const Call<wire::InfoArgs>& call);
  Result<wire::OneReply<wire::CacheReply>> Do(const Call<wire::CacheArgs>& call);
  Result<wire::OneReply<wire::ProfileReply>> Do(const Call<wire::ProfileArgs>& call);

  // ---- verbs_replays.cc: edits and forks where tokens have to be computed again
  Result<Outcome> RemoveWithReplay(const Call<wire::RemoveRangeArgs>& call);
  Result<Outcome> ForkWithReplay(const Call<wire::ForkArgs>& call);
  Result<Outcome> CopyWithReplay(const Call<wire::CopyRangeArgs>& call);
  // `applied`: what the cut itself is remembered as.
  Result<Outcome> SubmitReplay(const VerbRequest& request, SequenceHandle sequence, PosRange range,
                               const RequestTag& applied, AfterReplay after);
  // ---- verbs_prefixes.cc
  // How a prompt for that sequence is to come by its cells.
  OpeningState OpeningFor(const VerbRequest& request, const SequenceInfo& info,
                          bool wants_all_logits) const;
  // Lets go of a sequence; whether it stays as a retained one.
  Result<bool> LetGo(SequenceHandle handle, const RequestTag& applied = {});
  // ---- verbs_retried.cc: requests that are sent again
  // What is remembered of it; nothing if it was not applied. Sequences that it has made on its way
  // are dropped then. `made`: storage of the answer's. Errors: kConflict.
  Result<std::optional<wire::Remembered>> FindRemembered(const VerbRequest& request,
                                                         const wire::VerbRow& row,
                                                         std::vector<SequenceHandle>* made);
  // Drops the sequences that it has made.
  void DropPartsOf(const VerbRequest& request);
  // What it has committed of `sequence` before. Errors: kConflict.
  Result<Progress> ProgressOf(const VerbRequest& request, const SequenceInfo& info,
                              std::span<const TokenId> prompt) const;
  // ---- verbs_saved.cc
  static FileAttempt AttemptOf(const VerbRequest& request);
  Result<SavedStates*> FindStore() const;  // kUnsupported: there is none
  // `sequences`: or why they cannot be saved, unless that was done already.
  Result<Outcome> SaveSequences(const VerbRequest& request, std::int64_t bits,
                                Result<std::vector<SequenceHandle>> sequences);
  // ---- verbs_computing.cc
  // Where kContinue takes the logits from.
  Status PrepareContinue(const VerbRequest& request, const SequenceInfo& info,
                         GenerationState* state);
  // Room in the pool at all; what is free and the uid's share are asked for before the first step.
  Status CheckTokenCount(std::uint64_t tokens) const;
  // Error: kInvalidArgument (pos is not the next position, or positions would overflow).
  Result<Pos> CheckNextPos(const SequenceInfo& info, std::int64_t pos, std::size_t tokens) const;
  // ---- verbs_state.cc
  Result<wire::LoadReply> ImportUploaded(const Session& session, const SequenceOwner& owner,
                                         const RequestTag& applied, StateUpload& upload,
                                         WorkControl& work);
  std::vector<SequenceHandle> SequencesOf(SessionId session) const;
  // Of an export or an upload.
  std::uint64_t StateBytesMax(std::uint32_t uid) const;

  Engine& engine_;
  Memory& memory_;
  Scheduler& scheduler_;
  const Shares& shares_;
  const Surroundings surroundings_;
  const PrefixOptions prefixes_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  SamplerStates samplers_;
  std::map<SessionId, StateUpload> uploads_;  // states that are being sent
  const std::uint64_t tokens_max_;
};

}  // namespace kvd
