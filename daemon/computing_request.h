// ComputingRequest: one request that computes (kDecode, kGenerate, kDivide, kEmbed, …) from its
// submission to its final answer.
//
// Owner: the scheduler; the engine thread runs it, other threads may only cancel it. Each kind is
// one derived class. A request holds at most one piece that waits for room: while it does, it
// computes nothing, and nobody else notices.
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

#include "daemon/acquired_sequence.h"
#include "daemon/sequence_preparation.h"
#include "daemon/session.h"
#include "daemon/shares.h"
#include "daemon/step_clock.h"
#include "engine/engine.h"
#include "engine/memory/append_promise.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/prefix_reuse.h"
#include "shm/verb_table.h"

namespace kvd {

// Whose request it is and how to answer it.
struct RequestOrigin {
  std::shared_ptr<Session> session;
  RequestId request{};
  wire::Verb verb{};
  bool wants_progress = false;  // kFlagProgress
  SharedShare share{};          // for its copy of the payload
};

// How a prompt that begins an empty sequence comes by its cells (PrefixSharing).
class ComputingRequest;
class PromptLoad;
struct OpeningState {
  // Given with the request: whose namespace it is, and whether it takes from others; if not,
  // reuse.limit says why.
  std::uint32_t uid = 0;
  std::uint64_t salt = 0;
  bool may_take = false;
  PrefixReuse reuse{};  // so far

  // Kept by the scheduler.
  bool is_looked_up = false;
  bool is_stalled = false;  // found no room for its output when it last could have computed
  bool waits = false;       // for the leader
  const ComputingRequest* leader = nullptr;  // an earlier request, to be compared only
  std::size_t common = 0;   // tokens in common with the leader, without the prompt's last
  std::size_t seen = 0;     // tokens that the leader held at the last look
  std::size_t keep_at = 0;  // recurrent state is worth keeping there; 0: nowhere
  bool asks_disk = false;   // what the disk has is to be looked up
  std::uint32_t loads_begun = 0;
  std::shared_ptr<PromptLoad> load;  // it waits for that; null: for none
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
  // kNone: it works on none, or on all.
  SequenceHandle sequence() const { return sequence_; }

  // Any thread. The request ends soon with kCancelled; what was committed stays.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // ---- engine thread
  // The whole prompt while it is computed, if it began an empty sequence; else nothing.
  virtual std::span<const TokenId> opening_prompt() const { return {}; }
  // Its tokens that the sequence holds.
  virtual std::size_t opening_done() const { return 0; }
  // The sequence holds the prompt's first `cells` now, fewer than all. REQUIRES: an opening prompt.
  virtual void SkipTo(std::size_t) {}
  // Tokens it would compute next; 0: none now. 1 is a decode row.
  virtual std::size_t wanted_tokens() const = 0;
  // Whether computing that many of them needs a row of the scheduler's own for logits.
  virtual bool needs_row(std::size_t tokens) const = 0;
  // Fills `item` with at most tokens_max tokens; `row` as needs_row said, else null. False: no room
  // for the output now.
  virtual bool Fill(std::size_t tokens_max, float* row, StepItem& item) = 0;
  // Whether Finish will send the final answer itself, so that the sequence must be free before:
  // whoever has read the answer may use it at once.
  virtual bool ends_with(const StepItem&) const { return false; }
  // Takes the step's outcome for the item that Fill filled last; `row` is the one that Fill was
  // given.
  virtual void Finish(const StepItem& item, std::span<const float> row) = 0;
  // Whether no other request may have the same sequence (or none) meanwhile.
  virtual bool excludes_others() const { return true; }
  // What takes microseconds and computes nothing (drawing from logits that are kept): done between
  // two steps, in every round. REQUIRES (RunAlone): runs_alone().
  virtual bool runs_alone() const { return false; }
  virtual void RunAlone(Engine&) {}
  // Work that is no step and takes long (kDivide, kEncode, kEmbed, replays): tokens or cells of it
  // that are left, as its kind counts them; 0: none now. Then wanted_tokens is 0.
  virtual std::size_t work_left() const { return 0; }
  virtual WorkKind work_kind() const { return WorkKind::kRewrite; }
  // Does about `tokens` of it, at least a little. REQUIRES: work_left() > 0.
  virtual void DoWork(Engine&, std::size_t) {}
  // Acts on Cancel, once; may ask for one more step if the client has seen a token that is not
  // committed yet.
  virtual void OnCancel();
  // Tokens drawn by Finish since the last call.
  virtual std::uint64_t TakeSampledCount() { return 0; }

  // Ends the request with an error.
  void EndWith(const Error& error);
  // The same, for an error of its tokens: nothing of them stays, if the verb promises that.
  virtual void FailWith(const Error& error) { EndWith(error); }
  // The final answer is known: the sequence is free for others.
  bool finishing() const { return final_.has_value(); }
  // Sends what waits. False: no room now.
  bool Flush();
  // The final answer was sent.
  bool ended() const { return ended_; }
  bool waits_for_room() const { return piece_.has_value() || (final_.has_value() && !ended_); }

  OpeningState opening;
  SequencePreparation preparation;  // of its sequence, for its next step
  AppendPromise promise;            // for its tokens, once it is_admitted
  bool is_admitted = false;
  // A retained sequence that it has taken over: what it was, if the request fails and leaves nothing.
  AcquiredSequence acquired;
  bool has_appended = false;  // some of its tokens are committed
  // Kept by the scheduler: OnCancel was called; it found no room in this round.
  bool cancel_seen = false;
  bool stalled = false;
  bool has_begun_work = false;  // it may hold buffers, cells or state slots since
  bool is_forgotten = false;    // the scheduler's maps have it no more

 protected:
  struct Answer {
    wire::Completion completion{};
    std::vector<std::byte> output;
  };

  const RequestOrigin& origin() const { return origin_; }
  // To be grown by what work allocates.
  Share ShareForWork() const { return {origin_.session->account(), Resource::kHeldBytes}; }
  wire::Completion MakeCompletion() const;
  // Itself, as what it commits is marked.
  RequestTag applied() const;
  bool has_piece() const { return piece_.has_value(); }
  void DropPiece() { piece_.reset(); }
  // Keeps a piece to be sent by Flush. REQUIRES: !has_piece().
  void SetPiece(Answer piece) { piece_ = std::move(piece); }
  void SetFinal(Answer final) {
    acquired.Keep();
    final_ = std::move(final);
  }
  // The final answer is this reply of its verb.
  template <class Typed>
  void SetReply(Typed reply) {
    Answer answer{.completion = MakeCompletion(), .output = {}};
    wire::PutReply(reply, &answer.completion);
    answer.output = wire::TakeOutput(reply);
    SetFinal(std::move(answer));
  }
  // The final answer has been published by other means (logits in place).
  void SetEnded();
  // A piece of kPieceProgress, if the client wants them and there is room: progress waits for
  // nobody.
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
