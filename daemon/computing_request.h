// ComputingRequest: one request that computes (kDecode, kGenerate, kDivide, kEmbed, …) from its
// submission to its final answer. Each kind of request is one derived class.
//
// Owner: the scheduler. The engine thread runs the request; other threads may only cancel it. A
// request holds at most one piece that waits for room in the client's segment. While a request
// holds a piece that waits for room, the request computes nothing, and other requests are not
// affected.
//
//   wanted_tokens ► Fill ► (the step) ► Finish ► Flush ► … ► finishing ► Flush ► ended
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/acquired_sequence.h"
#include "daemon/sequence_preparation.h"
#include "daemon/session.h"
#include "daemon/shares.h"
#include "daemon/step_clock.h"
#include "engine/engine.h"
#include "engine/memory/append_promise.h"
#include "shm/prefix_reuse.h"
#include "shm/verb_table.h"

namespace kvd {

// The session that sent a request, and the data that an answer to the request needs.
struct RequestOrigin {
  std::shared_ptr<Session> session;
  RequestId request{};
  wire::Verb verb{};
  bool wants_progress = false;  // kFlagProgress
  SharedShare share{};          // the share that counts the daemon's copy of the payload
};

// Data about how a prompt that begins an empty sequence gets its cells (PrefixSharing).
class ComputingRequest;
class PromptLoad;
struct OpeningState {
  // The following members are set when the request is created: the namespace (owner and salt), and
  // whether the prompt may take cells of other sequences (may_take). If may_take is false,
  // reuse.limit gives the reason.
  OwnerId owner{};
  std::uint64_t salt = 0;
  bool is_ephemeral = false;  // other prompts take no cells of the sequence
  bool may_take = false;
  PrefixReuse reuse{};  // the reused prefix: the cells that the prompt has taken so far

  // Set by the scheduler.
  bool is_looked_up = false;
  bool is_stalled = false;  // true: the last call of Fill found no room for the request's output
  bool waits = false;  // the request computes nothing because it waits for its leader or for `load`
  // An earlier request that computes the same first tokens. The pointer `leader` is only compared,
  // never dereferenced.
  const ComputingRequest* leader = nullptr;
  // Number of first tokens that the prompt has in common with the leader's, at most all but the
  // prompt's last token.
  std::size_t common = 0;
  // Number of tokens of the leader's sequence when the leader was last checked.
  std::size_t seen = 0;
  // The number of the prompt's tokens after which the recurrent state is kept; 0: no state is kept.
  std::size_t keep_at = 0;
  bool asks_disk = false;  // true: the prompt cache must still be searched for the prompt
  std::uint32_t loads_begun = 0;
  std::shared_ptr<PromptLoad> load;  // the cache entry that the request waits for; null: none
};

class ComputingRequest {
 public:
  ComputingRequest(RequestOrigin origin, SequenceHandle sequence);
  virtual ~ComputingRequest() {
    if (has_appended) acquired.Keep();
  }
  ComputingRequest(const ComputingRequest&) = delete;
  ComputingRequest& operator=(const ComputingRequest&) = delete;

  Session& session() const { return *origin_.session; }
  RequestId id() const { return origin_.request; }
  // Returns the sequence that the request works on. kNone: the request works on no sequence, or on
  // all sequences.
  SequenceHandle sequence() const { return sequence_; }

  // Cancel may be called from any thread and makes the request end soon with kCancelled; committed
  // tokens stay in the sequence.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // ---- engine thread
  // The functions from here on are called on the engine thread. opening_prompt returns the whole
  // prompt if the request computes a prompt at the begin of an empty sequence, else an empty span.
  virtual std::span<const TokenId> opening_prompt() const { return {}; }
  // Returns how many of the prompt's tokens the sequence holds.
  virtual std::size_t opening_done() const { return 0; }
  // Informs the request that the sequence holds the prompt's first `cells` tokens. REQUIRES:
  // `cells` is less than the prompt's length. REQUIRES: opening_prompt() is not empty.
  virtual void SkipTo(std::size_t) {}
  // Returns the number of tokens that the request can compute in the next step. 0: the request
  // computes nothing at the moment. 1: the token is a decode row.
  virtual std::size_t wanted_tokens() const = 0;
  // Returns whether computing `tokens` tokens needs one of the scheduler's scratch rows for logits.
  virtual bool needs_row(std::size_t tokens) const = 0;
  // Fills `item` with at most tokens_max tokens. `row`: a scratch row if needs_row returns true,
  // else null. Returns false if there is no room for the output at the moment.
  virtual bool Fill(std::size_t tokens_max, float* row, StepItem& item) = 0;
  // Returns whether Finish will publish the final answer itself. If ends_with returns true, the
  // scheduler releases the sequence before it calls Finish, because the client may use the sequence
  // as soon as the client has read the answer.
  virtual bool ends_with(const StepItem&) const { return false; }
  // Finish takes the step's result for the item that Fill filled last. `row` is the row that was
  // given to Fill.
  virtual void Finish(const StepItem& item, std::span<const float> row) = 0;
  // Returns whether no other request may work on the same sequence (or on kNone) at the same time.
  virtual bool excludes_others() const { return true; }
  // RunAlone does work that takes at most about a millisecond and computes no tokens, such as
  // drawing from kept logits. The scheduler calls RunAlone between two steps, in every round in
  // which runs_alone() is true.
  virtual bool runs_alone() const { return false; }
  virtual void RunAlone(Engine&) {}
  // Returns the amount of long work that is left and is not part of a step (kDivide, kEncode,
  // kEmbed, kRank, replays), in tokens or cells, depending on work_kind; 0: there is no such work
  // at the moment. While work_left() is not 0, wanted_tokens() is 0.
  virtual std::size_t work_left() const { return 0; }
  virtual WorkKind work_kind() const { return WorkKind::kRewrite; }
  // Does about `tokens` units of the long work that work_left counts, and always makes progress.
  // REQUIRES: work_left() > 0.
  virtual void DoWork(Engine&, std::size_t) {}
  // The scheduler calls OnCancel once after Cancel was called. After it, the request
  // takes part in one more step if a token that the client has seen is not committed yet; this step
  // commits the token.
  virtual void OnCancel();
  // Returns the number of tokens that Finish has drawn since the last call.
  virtual std::uint64_t TakeSampledCount() { return 0; }

  // Ends the request with an error.
  void EndWith(const Error& error);
  // Ends the request with an error that occurred while its tokens were computed. A request that
  // must leave its sequence unchanged on failure removes its appended tokens first.
  virtual void FailWith(const Error& error) { EndWith(error); }
  // Returns whether the final answer is known; other requests may then use the sequence.
  bool finishing() const { return final_.has_value(); }
  // Sends the waiting piece and the final answer. Returns false if there is no room at the moment.
  bool Flush();
  // Returns whether the final answer was sent.
  bool ended() const { return ended_; }
  bool waits_for_room() const { return piece_.has_value() || (final_.has_value() && !ended_); }

  OpeningState opening;
  SequencePreparation preparation;  // the preparation of the request's sequence for the next step
  AppendPromise promise;  // the promise for the request's tokens; valid once is_admitted is set
  bool is_admitted = false;
  // The retained sequence that the request has taken over. A retained sequence that was taken over
  // is given back if the request fails without changing it.
  AcquiredSequence acquired;
  bool has_appended = false;  // true: some tokens of the request are committed
  // The scheduler sets the following members. cancel_seen: OnCancel was called. stalled: the
  // request found no room for its output in this round.
  bool cancel_seen = false;
  bool stalled = false;
  // True: the request may hold buffers, cells or state slots for its work.
  bool has_begun_work = false;
  bool is_forgotten = false;  // true: the request was removed from the scheduler's maps

 protected:
  struct Answer {
    wire::Completion completion{};
    std::vector<std::byte> output;
  };

  const RequestOrigin& origin() const { return origin_; }
  // Returns a share of amount 0 for the buffers that the request's work allocates; the work
  // increases the share.
  Share ShareForWork() const { return {origin_.session->account(), Resource::kHeldBytes}; }
  wire::Completion MakeCompletion() const;
  // Returns the tag with which the memory marks this request's commits.
  RequestTag applied() const;
  bool has_piece() const { return piece_.has_value(); }
  void DropPiece() { piece_.reset(); }
  // Stores a piece that Flush will send. REQUIRES: !has_piece().
  void SetPiece(Answer piece) { piece_ = std::move(piece); }
  void SetFinal(Answer final) {
    acquired.Keep();
    final_ = std::move(final);
  }
  // Sets the final answer to `reply`.
  template <class Typed>
  void SetReply(Typed reply) {
    Answer answer{.completion = MakeCompletion(), .output = {}};
    wire::PutReply(reply, &answer.completion);
    answer.output = wire::TakeOutput(reply);
    SetFinal(std::move(answer));
  }
  // Records that the final answer was already published without Flush (logits that were written in
  // place).
  void SetEnded();
  // Sends a piece of kPieceProgress if the client wants progress and there is room. TryProgress
  // never waits.
  void TryProgress(std::uint64_t done, std::uint64_t total);

 private:
  const RequestOrigin origin_;
  const SequenceHandle sequence_;
  std::atomic<bool> cancelled_ = false;
  std::optional<Answer> piece_;
  std::optional<Answer> final_;
  bool ended_ = false;
};

}  // namespace kvd
