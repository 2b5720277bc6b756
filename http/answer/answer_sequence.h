// The sequence in which an answer is computed, and the prefix of the prompt in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_count.h"
#include "http/answer/answer_journal.h"
#include "http/answer/answer_request.h"
#include "http/answer/cache_report.h"
#include "http/answer/fork_context.h"
#include "http/answer/piece_source.h"
#include "http/answer/slots.h"
#include "http/answer/tenant_session.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

// What a slot's sequence holds of a prompt.
struct PromptPrefix {
  std::uint32_t tokens = 0;
  std::uint32_t cached_tokens = 0;  // that the daemon need not compute, as expected; not fewer
  CacheReport cache;
};

// AnswerSequence: the sequence in which an answer is computed: that of a slot, which the answer
// leases, or a branch, which the answer owns.
//
// Invariant: while it has a lease, the slot's sequence is the answer's, and what the slot
// notes of its tokens is right, or noted as unknown. An answer of an earlier process has no
// sequence before Claim.
class AnswerSequence final : public BoundedContext {
 public:
  // `request` outlives the AnswerSequence.
  AnswerSequence(TenantSession& tenant, const AnswerRequest& request)
      : tenant_(tenant), request_(request) {}

  // Errors: those of TenantSession::session.
  Status OpenSession();
  // Waits for the slot of the request. Errors: kInvalidArgument: there is no such slot.
  Await<Status> LeaseSlot();
  // Makes the slot's sequence hold a prefix of the prompt. REQUIRES: LeaseSlot has returned.
  Await<Result<PromptPrefix>> FindPrefix();
  // Takes a fork of the request's context. The branch's `session` and `permit` stay here.
  Await<Result<ForkContext::Branch>> TakeFork();
  // Takes a sequence that holds the whole prompt.
  void TakeBranch(std::shared_ptr<DaemonSession> session, SequenceHandle sequence);
  // The answer was begun by an earlier process.
  void BeginAgain(const LoggedStart& start);
  // Takes the slot and the sequence of an earlier process, unless this object has them. `end`: the
  // numbers of the answer so far. Errors: kNotFound, kSessionLost, kCorrupt; those of the session.
  Await<Status> Claim(const LoggedStart& start, const AnswerEnd& end);
  // Takes a new sequence instead of one that is lost, in the slot `slot` if there is such a slot.
  // Waits for the daemon.
  Await<Status> TakeNew(std::uint32_t slot);

  // Tokens that were appended to the sequence.
  void Append(std::span<const TokenId> tokens);
  // The generation that begins may leave out its last token.
  void NoteSkip(bool may_skip);
  // The answer begins or ends to wait for room in the daemon's pool.
  void NoteParking(bool is_parked);
  // The answer is complete. `skipped`: its last token is not in the sequence.
  void Finish(bool skipped);
  // Gives up the sequence: a branch is dropped.
  void Drop();
  SlotLease TakeLease() { return std::move(lease_); }

  std::uint32_t room() const override;
  Await<Result<bool>> Shift(bool is_done) override;

  // Returns whether the first generation was told where it begins, before it was known whether the
  // tail behind that was removed, and forgets it. Then a failure may have this reason.
  bool TakeGuess();
  // FindPrefix waits for removals from now on.
  void WaitForRemovals() { waits_for_removal_ = true; }
  std::optional<Pos> expected_pos() const { return expected_pos_; }

  const std::shared_ptr<DaemonSession>& session() const { return session_; }
  SequenceHandle handle() const { return handle_; }
  bool is_branch() const { return is_branch_; }
  bool is_shifted() const { return kept_.has_value(); }
  std::uint32_t cells() const { return cells_; }
  // Null: a branch, or not claimed.
  GatewaySlot* slot() const { return lease_ ? &lease_.slot() : nullptr; }

 private:
  Await<void> Lease(std::optional<std::uint32_t> number);
  // The slot has another sequence of the prompt; its tokens are unknown until the answer is
  // complete.
  void EnterSlot();
  Await<Result<std::size_t>> PrepareSlot(PromptPrefix& prefix);
  // Removes the slot's tokens from `begin` on. If the model has no recurrent state, it does not
  // wait: the generation is told where it begins, and fails if it begins elsewhere (TakeGuess).
  Await<Status> RemoveTail(const GatewaySlot& slot, std::size_t begin);
  // Replaces the slot's sequence by a new one. Returns 0.
  Await<Result<std::size_t>> TakeFreshSequence(GatewaySlot& slot);
  // Asks the daemon how much of the prompt it could reuse, and notes why not more.
  Await<std::size_t> AskWhy(CacheReport& cache);
  Await<Result<bool>> RemoveAndShift(std::uint32_t keep, std::uint32_t removed);
  void NoteShift(std::uint32_t keep, std::uint32_t removed);

  TenantSession& tenant_;
  const AnswerRequest& request_;
  std::shared_ptr<DaemonSession> session_;
  SequenceHandle handle_ = SequenceHandle::kNone;
  bool is_branch_ = false;
  SlotLease lease_;
  ForkContext::Permit permit_;
  std::uint32_t cells_ = 0;            // of the sequence
  std::optional<std::uint32_t> kept_;  // tokens before the first that a shift has removed
  bool knows_tokens_ = true;           // of the slot, when the answer is complete
  std::optional<Pos> expected_pos_;    // where the first generation begins, after RemoveTail
  bool waits_for_removal_ = false;
};

}  // namespace kvd::http
