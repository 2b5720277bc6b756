// Service: executes the verbs. The service decides which callers may use a verb on which sequences,
// and returns an error to a caller that may not.
//
// Owner: the server; the io thread calls all methods. Metadata verbs act directly on the engine's
// memory (which holds its own lock for microseconds) and never wait for a step. Long work on text
// and files is returned as a function that a worker thread runs. Computing verbs are submitted to
// the scheduler. The arguments of a submission have passed wire::ValidateSubmission and are a
// private copy; the service makes all other checks before it changes any state.
//
// A verb is an overload of Do, selected by the type of its arguments (shm/verb_table.h).
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

#include "daemon/process/weight_reading.h"
#include "daemon/requests/breaker_search.h"
#include "daemon/requests/replay_request.h"
#include "daemon/schedule/computing_request.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/sessions/owners.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/shares.h"
#include "daemon/stores/kept_samplers.h"
#include "daemon/stores/load_states.h"
#include "daemon/stores/saved_states.h"
#include "daemon/verbs/verb_call.h"
#include "engine/engine.h"
#include "shm/payload_codec.h"
#include "shm/verb_table.h"

namespace kvd {

class GrammarWorker;
class IdleTuning;
class LastRow;
class PromptCache;
struct GenerationState;

struct PrefixPolicy {
  bool is_shared = true;  // true: prompts take cells that other sequences hold
  // The largest number of retained sequences; 0: released sequences are dropped.
  std::uint32_t retained_max = std::numeric_limits<std::uint32_t>::max();
};

class Service {
 public:
  struct Surroundings {
    // Returns the pid of a session's client; 0: the pid is unknown.
    std::function<std::uint32_t(SessionId)> pid_of_session;
    std::function<std::uint32_t()> session_count;
    std::function<void()> expiry_set{};   // called after a time of expiry was set; may be empty
    SavedStates* saved_states = nullptr;  // the files of saved states; null: states cannot be saved
    // The prompt cache on disk; null: the daemon has no prompt cache.
    PromptCache* prompt_cache = nullptr;
    GrammarWorker* grammars = nullptr;      // null: generations cannot have grammars
    const IdleTuning* tuning = nullptr;     // null: no choices are measured
    const WeightThread* weights = nullptr;  // null: the weights are read when they are first used
  };

  // All arguments that are references or pointers refer to objects that outlive the service.
  Service(Engine& engine, Scheduler& scheduler, const Shares& shares, Surroundings surroundings,
          const PrefixPolicy& prefixes = {});

  // Executes a submission. `share`: the share that counts the payload; work that keeps the payload
  // also keeps the share.
  Outcome Handle(const std::shared_ptr<Session>& session, ReceivedSubmission& received,
                 Share share = {});
  // Makes the memory keep the owners' limits. Without a call, the memory has no limits if only the
  // daemon's own uid may connect.
  void LimitOwners() { memory_.SetShareRules(&shares_); }
  // Returns the largest number of tokens that a submission may carry.
  std::uint64_t tokens_max() const { return tokens_max_; }

  // Ends a session whose client will not reconnect: cancels the session's requests and releases its
  // private sequences, whose pristine parts stay as retained sequences.
  void SessionClosed(SessionId session);
  // The server calls SessionLost when a connection is lost and the client may reconnect.
  // SessionLost cancels the session's requests; their committed tokens stay in the sequences.
  void SessionLost(SessionId session);

 private:
  // The progress of an earlier attempt of a retried computing request.
  struct Progress {
    std::uint32_t first_cell = 0;    // number of cells of the sequence before the request
    std::size_t done = 0;            // number of cells that the request has computed
    std::vector<TokenId> predicted;  // the drawn tokens among the computed cells
    bool is_known = false;           // true: an earlier attempt is recorded
  };

  Result<std::vector<TokenId>> TakeGiven(bool is_retry, SequenceInfo* info);
  // The tokens at the ordinals [begin, end), with those that have given their cells back.
  Result<std::vector<TokenId>> TokensOf(const SequenceInfo& info, std::uint32_t begin,
                                        std::uint32_t end) const;

  // ---- service.cc: the path that all verbs share
  // Runs the verb of row kIndex of the table of verbs: answers a retry of an applied request from
  // the request's record, finds the sequences that the arguments name, and calls the verb's
  // handler.
  template <std::size_t kIndex>
  Result<Outcome> Run(const VerbRequest& request);
  // Finds the sequence of an argument. Errors: kNotFound, or kPermission if the caller lacks the
  // access that the rule requires.
  Result<SequenceInfo> Find(const VerbRequest& request, const wire::SlotRule& rule,
                            SequenceHandle handle) const;
  // Abandoned is called after the end of a worker's call whose connection was closed meanwhile. If
  // the session has ended too, Abandoned releases the sequences that the call created.
  void Abandoned(SessionId session);
  // Retains or drops the private sequences of the session, and removes the session's record.
  void LetGoOf(SessionId session);

  // ---- what a caller may change
  // Handlers call AcquireForWrite after all checks, directly before a
  // change. After AcquireForWrite, a sequence that was retained counts for the caller. Errors:
  // kNoSpace (the caller's shares), kNotFound (evicted in the meantime).
  Result<AcquiredSequence> AcquireForWrite(const VerbRequest& request, const SequenceInfo& info);
  SequenceOwner OwnerFor(const Caller& caller) const;

  // ---- the handlers
  // There is one handler for each type of arguments. Each handler returns its reply, or an Outcome
  // if workers or the scheduler may answer.
  // handlers_sequences.cc
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
  Result<wire::NoReply> Do(const Call<wire::SetLifeArgs>& call);
  Result<wire::ListReply<wire::LogRecord>> Do(const Call<wire::LogArgs>& call);
  // handlers_prefixes.cc
  Result<wire::RetainReply> Do(const Call<wire::RetainArgs>& call);
  Result<wire::PinReply> Do(const Call<wire::PinArgs>& call);
  Result<Outcome> Do(const Call<wire::TenantsArgs>& call);
  Result<wire::DropRetainedReply> Do(const Call<wire::DropRetainedArgs>& call);
  Result<Outcome> Do(const Call<wire::WhyArgs>& call);
  // handlers_snapshots.cc
  Result<wire::PublishReply> Do(const Call<wire::PublishArgs>& call);
  Result<wire::NoReply> Do(const Call<wire::UnpublishArgs>& call);
  Result<wire::ForkedReply> Do(const Call<wire::AttachArgs>& call);
  Result<wire::ListReply<wire::SnapshotEntry>> Do(const Call<wire::SnapshotsArgs>& call);
  // handlers_state.cc
  Result<Outcome> Do(const Call<wire::SaveArgs>& call);
  Result<Outcome> Do(const Call<wire::SaveAllArgs>& call);
  Result<Outcome> Do(const Call<wire::LoadArgs>& call);
  Result<Outcome> Do(const Call<wire::SavedArgs>& call);
  Result<Outcome> Do(const Call<wire::RemoveSavedArgs>& call);
  Result<Outcome> Do(const Call<wire::ExportStateArgs>& call);
  Result<wire::UploadStateReply> Do(const Call<wire::UploadStateArgs>& call);
  Result<Outcome> Do(const Call<wire::ImportStateArgs>& call);
  // handlers_text.cc
  Result<Outcome> Do(const Call<wire::TokenizeArgs>& call);
  Result<Outcome> Do(const Call<wire::DetokenizeArgs>& call);
  Result<Outcome> Do(const Call<wire::ChatTemplatesArgs>& call);
  Result<Outcome> Do(const Call<wire::ReadTextArgs>& call);
  // handlers_computing.cc
  Result<Outcome> Do(const Call<wire::DecodeArgs>& call);
  Result<Outcome> Do(const Call<wire::GenerateArgs>& call);
  Result<Outcome> Do(const Call<wire::DivideArgs>& call);
  Result<Outcome> Do(const Call<wire::DefragArgs>& call);
  Result<Outcome> Do(const Call<wire::EmbedArgs>& call);
  Result<Outcome> Do(const Call<wire::RankArgs>& call);
  Result<Outcome> Do(const Call<wire::EncodeArgs>& call);
  Result<wire::CancelReply> Do(const Call<wire::CancelArgs>& call);
  // handlers_info.cc
  Result<wire::PingReply> Do(const Call<wire::PingArgs>& call);
  Result<Outcome> Do(const Call<wire::InfoArgs>& call);
  Result<wire::OneReply<wire::CacheReply>> Do(const Call<wire::CacheArgs>& call);
  Result<wire::OneReply<wire::ProfileReply>> Do(const Call<wire::ProfileArgs>& call);
  Result<wire::OneReply<wire::TuningReply>> Do(const Call<wire::TuningArgs>& call);

  // ---- handlers_sequences.cc
  // Returns when the sequence expires and whether prompts may reuse it, as the request states.
  // ttl_seconds 0: the sequence does not expire.
  static SequenceLife LifeOf(const VerbRequest& request, std::uint32_t ttl_seconds);
  // Called after a commit that has set when a sequence expires and whether prompts may reuse it.
  void NoteLife(const SequenceLife& life);
  // ---- handlers_replays.cc: edits and forks for which tokens must be computed again
  Result<Outcome> RemoveWithReplay(const Call<wire::RemoveRangeArgs>& call);
  Result<Outcome> ForkWithReplay(const Call<wire::ForkArgs>& call);
  Result<Outcome> CopyWithReplay(const Call<wire::CopyRangeArgs>& call);
  // `applied`: the tag of the commit that removes the range.
  Result<Outcome> SubmitReplay(const VerbRequest& request, SequenceHandle sequence, PosRange range,
                               const RequestTag& applied, AfterReplay after);
  // ---- handlers_prefixes.cc
  // Returns the initial OpeningState of a prompt for the sequence.
  PromptOpening OpeningFor(const VerbRequest& request, const SequenceInfo& info,
                           bool wants_all_logits) const;
  // Releases a sequence. Returns true if the sequence is retained, and false if it is dropped.
  Result<bool> LetGo(SequenceHandle handle, const RequestTag& applied = {});
  // ---- service.cc: retries
  // Returns the record of a retried request, or nullopt if the request was not applied. If the
  // request was not applied, the sequences that the earlier attempt has created are dropped; for
  // verbs with Parts::kScratch these sequences are always dropped. `made`: storage to which the
  // returned record refers. Errors: kConflict.
  Result<std::optional<wire::Remembered>> FindRemembered(const VerbRequest& request,
                                                         const wire::VerbRow& row,
                                                         std::vector<SequenceHandle>* made);
  // Drops the sequences that an earlier attempt of the request has created.
  void DropPartsOf(const VerbRequest& request);
  // Returns the tokens that an earlier attempt has committed to the sequence. Errors: kConflict.
  Result<Progress> ProgressOf(const VerbRequest& request, const SequenceInfo& info,
                              std::span<const TokenId> prompt) const;
  // ---- handlers_state.cc
  static FileAttempt AttemptOf(const VerbRequest& request);
  Result<SavedStates*> FindStore() const;  // error: kUnsupported (the daemon has no --store)
  // `sequences`: the sequences to save, or the error that prevents saving them. An error in
  // `sequences` is ignored if an earlier attempt has completed the request.
  Result<Outcome> SaveSequences(const VerbRequest& request, std::int64_t bits,
                                Result<std::vector<SequenceHandle>> sequences);
  // ---- handlers_computing.cc
  // Returns the row of logits after the sequence's last token. Errors: kInvalidArgument (the
  // sequence is empty), kUnsupported (the row is neither kept nor can it be computed on a fork),
  // and those of Sequences::Fork.
  Result<LastRow> LastRowOf(const VerbRequest& request, const SequenceInfo& info);
  // Begins the compilation of the request's grammar. `kept`: the grammar of the sampler that the
  // request resumes; nullopt: it resumes none. `first_cell`: the cells before the request.
  Status BeginGrammar(const VerbRequest& request, const SequenceInfo& info,
                      wire::GenerateRequest& generate, const std::optional<KeptGrammar>& kept,
                      std::uint32_t first_cell, GenerationState* state);
  // Checks that an empty pool could hold `tokens` tokens. Whether the pool has free room and
  // whether the owner's share is large enough is checked later, before the first step.
  Status CheckTokenCount(std::uint64_t tokens) const;
  // Returns the position of the first token to append. Error: kInvalidArgument (pos is not the next
  // position, or positions would overflow).
  Result<Pos> CheckNextPos(const SequenceInfo& info, std::int64_t pos, std::size_t tokens) const;
  // ---- handlers_state.cc
  Result<wire::LoadReply> ImportUploaded(const Session& session, const SequenceOwner& owner,
                                         const RequestTag& applied, StateUpload& upload,
                                         WorkControl& work);
  std::vector<SequenceHandle> SequencesOf(SessionId session) const;
  // Returns the largest size of an export or an upload of the owner.
  std::uint64_t StateBytesMax(OwnerId owner) const;

  Engine& engine_;
  Memory& memory_;
  Scheduler& scheduler_;
  const Shares& shares_;
  const Surroundings surroundings_;
  const PrefixPolicy prefixes_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  KeptSamplers samplers_;
  BreakerCache breaker_cache_;
  std::map<SessionId, StateUpload> uploads_;  // states that clients are uploading
  const std::uint64_t tokens_max_;
};

}  // namespace kvd
