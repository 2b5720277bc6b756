// Computing requests, and the sequences that they take over from other owners.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/schedule/step_clock.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/shares.h"
#include "daemon/sessions/wire_reply.h"
#include "engine/engine.h"
#include "engine/memory/memory.h"
#include "shm/prefix_reuse.h"
#include "shm/verb_table.h"

namespace kvd {

// AcquiredSequence: a sequence that a verb is about to change. The verb takes a retained sequence
// over for its caller, so that the sequence is not evicted during the request. If the verb fails
// without an effect, the sequence is given back to its previous owner as a retained sequence.
//
// Owner: the verb's handler (io thread), then the verb's computing request (engine thread). The
// memory outlives the AcquiredSequence.
class AcquiredSequence {
 public:
  // Creates an AcquiredSequence for a sequence that was not retained: GiveBack then has no effect.
  AcquiredSequence() = default;
  // `before`: the record of the sequence as it was before the caller took the sequence over.
  AcquiredSequence(Memory& memory, const SequenceInfo& before)
      : memory_(&memory), before_(before) {}
  AcquiredSequence(AcquiredSequence&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), before_(other.before_) {}
  AcquiredSequence& operator=(AcquiredSequence&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(before_, other.before_);
    return *this;
  }
  ~AcquiredSequence() { GiveBack(); }

  // Keep is called when the verb has succeeded: the caller keeps the sequence.
  void Keep() { memory_ = nullptr; }
  // GiveBack is called when the verb has failed without changing the sequence: the sequence is
  // retained again for its previous owner.
  void GiveBack() {
    if (memory_ == nullptr) return;
    // SetOwner returns kNotFound if the sequence was dropped in the meantime.
    (void)memory_->sequences().SetOwner(before_.handle, before_.owner, layout::kSequenceRetained,
                                        0);
    memory_ = nullptr;
  }

 private:
  Memory* memory_ = nullptr;
  SequenceInfo before_;
};

// ComputingRequest: one request that computes (kDecode, kGenerate, kDivide, kEmbed, …) from its
// submission to its final answer. Each kind of request is one derived class.
//
// A ComputingRequest answers its client and can be cancelled. What it computes is told by up to
// three interfaces that a derived class implements: StepMember (tokens that take part in a step),
// SlicedWork (long work between steps) and LoneWork (short work between steps).
//
// Owner: the scheduler, which keeps its own data about the request in a ScheduledRequest
// (daemon/scheduled_request.h). The engine thread runs the request; other threads may only cancel
// it. A request holds at most one piece that waits for room in the client's segment. While a
// request holds a piece that waits for room, the request computes nothing, and other requests are
// not affected.
//
//   wanted_tokens ► Fill ► (the step) ► Finish ► Flush ► … ► finishing ► Flush ► ended

// The session that sent a request, and the data that an answer to the request needs.
struct RequestOrigin {
  std::shared_ptr<Session> session;
  RequestId request{};
  wire::Verb verb{};
  bool wants_progress = false;  // kFlagProgress
  SharedShare share{};          // the share that counts the daemon's copy of the payload
};

// How a prompt that begins an empty sequence gets its cells (PrefixSharing): the namespace (owner
// and salt), and whether the prompt may take cells of other sequences (may_take). If may_take is
// false, reuse.limit gives the reason.
struct PromptOpening {
  OwnerId owner{};
  std::uint64_t salt = 0;
  bool is_ephemeral = false;  // other prompts take no cells of the sequence
  bool may_take = false;
  PrefixReuse reuse{};  // the reused prefix: the cells that the prompt has taken so far
};

// The tokens of a request's prompt and answer.
struct RequestTokens {
  std::size_t done = 0;
  std::size_t wanted = 0;  // in all; 0: unknown
};

// What a request does at the moment, for clients.
struct RequestStanding {
  wire::RequestState state = wire::kRequestNone;
  RequestTokens tokens{};
  std::chrono::milliseconds parked_for{0};  // how long the request has waited for room
};

// StepMember: what the tokens of a request need to take part in a step. The scheduler calls the
// functions on the engine thread.
class StepMember {
 public:
  StepMember(const StepMember&) = delete;
  StepMember& operator=(const StepMember&) = delete;

  PromptOpening& opening() { return opening_; }
  const PromptOpening& opening() const { return opening_; }

  // Returns the whole prompt if the request computes a prompt at the begin of an empty sequence,
  // else an empty span.
  virtual std::span<const TokenId> opening_prompt() const = 0;
  // Returns how many of the prompt's tokens the sequence holds.
  virtual std::size_t opening_done() const = 0;
  // Informs the request that the sequence holds the prompt's first `cells` tokens. REQUIRES:
  // `cells` is less than the prompt's length. REQUIRES: opening_prompt() is not empty.
  virtual void SkipTo(std::size_t cells) = 0;
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
  virtual bool ends_with(const StepItem& item) const = 0;
  // Finish takes the step's result for the item that Fill filled last. `row` is the row that was
  // given to Fill.
  virtual void Finish(const StepItem& item, std::span<const float> row) = 0;
  // Returns whether the next tokens are those of a prompt, of which the client has seen no answer.
  virtual bool wants_prompt() const { return false; }
  // Returns how many tokens the scheduler promises room for before the first of them is computed.
  virtual std::size_t promised_tokens() const { return wanted_tokens(); }
  // Returns how many of the sequence's cells must stay if the request gives cells back for lack of
  // room (Sequences::GiveBack): those before its answer, or before a prompt that is not complete.
  // nullopt: it gives none back at the moment.
  virtual std::optional<std::uint32_t> kept_cells() const { return std::nullopt; }
  // The sequence has given back the cells of `tokens`, and ends at `pos` now. The request computes
  // them again before anything else, and sends nothing of them. REQUIRES: kept_cells().
  virtual void OnGivenBack(std::vector<TokenId> tokens, Pos pos);
  // Returns how many tokens of the sequence are computed again, because it has given them back.
  virtual std::size_t given_left() const { return 0; }
  // Returns how long the request waits for room in the memory; 0: it fails at once; nullopt: as
  // long as the daemon's options say.
  virtual std::optional<std::chrono::milliseconds> room_wait() const {
    return std::chrono::milliseconds(0);
  }
  // The sequence has all the room that it can get: ends an answer that has no limit. Returns false
  // if the answer has one.
  virtual bool EndFull() { return false; }
  // Returns how many of its tokens the request has computed, for clients.
  virtual RequestTokens tokens() const { return {}; }
  // Returns whether the client wants to know when the request waits for room (kTellParking).
  virtual bool tells_parking() const { return false; }
  // Returns the number of tokens that Finish has drawn since the last call.
  virtual std::uint64_t TakeSampledCount() = 0;

 protected:
  StepMember() = default;
  ~StepMember() = default;

 private:
  PromptOpening opening_;
};

// SlicedWork: long work of a request that is not part of a step (kDivide, kEncode, kEmbed, kRank,
// replays). The scheduler divides it into slices, which it calls on the engine thread between
// steps.
class SlicedWork {
 public:
  SlicedWork(const SlicedWork&) = delete;
  SlicedWork& operator=(const SlicedWork&) = delete;

  // Returns the amount of work that is left, in tokens or cells, depending on work_kind; 0: there
  // is no such work at the moment. While work_left() is not 0, a StepMember wants no tokens.
  virtual std::size_t work_left() const = 0;
  virtual WorkKind work_kind() const = 0;
  // Does about `tokens` units of the work that work_left counts, and always makes progress.
  // REQUIRES: work_left() > 0.
  virtual void DoWork(Engine& engine, std::size_t tokens) = 0;

 protected:
  SlicedWork() = default;
  ~SlicedWork() = default;
};

// LoneWork: work that takes at most about a millisecond and computes no tokens, such as drawing
// from kept logits. The scheduler calls RunAlone on the engine thread between two steps, in every
// round in which runs_alone() is true.
class LoneWork {
 public:
  LoneWork(const LoneWork&) = delete;
  LoneWork& operator=(const LoneWork&) = delete;

  virtual bool runs_alone() const = 0;
  virtual void RunAlone(Engine& engine) = 0;

 protected:
  LoneWork() = default;
  ~LoneWork() = default;
};

class ComputingRequest {
 public:
  ComputingRequest(RequestOrigin origin, SequenceHandle sequence);
  virtual ~ComputingRequest() {
    if (has_appended_) acquired_.Keep();
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
  // As Cancel, because the sequence is about to be dropped.
  void CancelDropped() {
    is_dropped_.store(true, std::memory_order_relaxed);
    Cancel();
  }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // The error of a cancelled request.
  Error CancelledError() const;

  // What the request does at `now`. Any thread; the values may be of different rounds.
  RequestStanding StandingAt(std::chrono::steady_clock::time_point now) const;

  // Stores the retained sequence that the request has taken over. It is given back if the request
  // fails without changing it. Called before the request is submitted.
  void SetAcquired(AcquiredSequence acquired) { acquired_ = std::move(acquired); }

  // ---- engine thread
  // The functions from here on are called on the engine thread. The next three return what the
  // request computes; null: the request computes nothing of this kind.
  virtual StepMember* step_member() { return nullptr; }
  virtual SlicedWork* sliced_work() { return nullptr; }
  virtual LoneWork* lone_work() { return nullptr; }
  // Returns whether no other request may work on the same sequence (or on kNone) at the same time.
  virtual bool excludes_others() const { return true; }
  // The scheduler calls OnCancel once after Cancel was called. After it, the request
  // takes part in one more step if a token that the client has seen is not committed yet; this step
  // commits the token.
  virtual void OnCancel();
  // Ends the request with an error that occurred while its tokens were computed. A request that
  // must leave its sequence unchanged on failure removes its appended tokens first.
  virtual void FailWith(const Error& error) { EndWith(error); }

  // Ends the request with an error.
  void EndWith(const Error& error);
  // Informs the request that some of its tokens are committed.
  void NoteAppended() { has_appended_ = true; }
  bool has_appended() const { return has_appended_; }
  // Returns whether the final answer is known; other requests may then use the sequence.
  bool finishing() const { return final_.has_value(); }
  // Notes what StandingAt returns. `parked_from`: of a request that is parked.
  void NoteStanding(wire::RequestState state, RequestTokens tokens,
                    std::chrono::steady_clock::time_point parked_from);
  // Sends a piece of kPieceParking if the client was told something else before and there is room.
  // TellParking never waits.
  void TellParking(bool is_parked);
  // Sends the waiting piece and the final answer. Returns false if there is no room at the moment.
  bool Flush();
  // Returns whether the final answer was sent.
  bool ended() const { return ended_; }
  bool waits_for_room() const { return piece_.has_value() || (final_.has_value() && !ended_); }

 protected:
  const RequestOrigin& origin() const { return origin_; }
  // Returns a share of amount 0 for the buffers that the request's work allocates; the work
  // increases the share.
  Share ShareForWork() const { return {origin_.session->account(), Resource::kHeldBytes}; }
  wire::Completion MakeCompletion() const;
  // Returns the tag with which the memory marks this request's commits.
  RequestTag applied() const;
  // Informs the request that its committed tokens are removed again.
  void NoteTakenBack() { has_appended_ = false; }
  bool has_piece() const { return piece_.has_value(); }
  void DropPiece() { piece_.reset(); }
  // Stores a piece that Flush will send. REQUIRES: !has_piece().
  void SetPiece(WireReply piece) { piece_ = std::move(piece); }
  void SetFinal(WireReply final) {
    acquired_.Keep();
    final_ = std::move(final);
  }
  // Sets the final answer to `reply`.
  template <class Typed>
  void SetReply(Typed reply) {
    SetFinal(MakeReply(std::move(reply), MakeCompletion()));
  }
  // Records that the final answer was already published without Flush (logits that were written in
  // place).
  void SetEnded();
  // Sends a piece of kPieceProgress if the client wants progress and there is room. TryProgress
  // never waits.
  void TryProgress(std::uint64_t done, std::uint64_t total);

 private:
  // Sends a piece that has only `done` and `total`. Returns false if there is no room for it.
  bool TryNote(wire::PieceKind kind, std::uint64_t done, std::uint64_t total);

  const RequestOrigin origin_;
  const SequenceHandle sequence_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> is_dropped_ = false;
  std::atomic<wire::RequestState> state_ = wire::kRequestWaits;
  std::atomic<std::size_t> tokens_done_ = 0;
  std::atomic<std::size_t> tokens_wanted_ = 0;
  std::atomic<std::chrono::steady_clock::duration> parked_from_{};  // since the clock's epoch
  bool was_told_parked_ = false;
  AcquiredSequence acquired_;
  bool has_appended_ = false;  // true: some tokens of the request are committed
  std::optional<WireReply> piece_;
  std::optional<WireReply> final_;
  bool ended_ = false;
};

}  // namespace kvd
