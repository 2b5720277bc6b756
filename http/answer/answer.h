// Answer: one generation for one AnswerRequest: it waits for a slot, finds what of the prompt is
// cached, generates, shifts the context where the request allows it, and counts.
//
//   KVD_CO_TRY(const auto answer, co_await Answer::Start(tenant, std::move(request)));
//   for (;;) {
//     KVD_CO_TRY(const auto piece, co_await answer->Next());
//     if (!piece) break;
//     Show(piece->text);
//   }
//   Report(answer->end());
//
// Destroying an Answer cancels it: its slot is free again within one step of the daemon. Its
// sequence stays in the slot; the sequence of a branch (StartMany, fork_from) is dropped.
//
// An answer whose journal has records of an earlier process takes those first, and then resumes the
// generation in the daemon. Where the daemon cannot resume it (its session or sequence is gone),
// the answer is computed from its prompt again, with the same seed: what the caller has had already
// is left out, and tokens that differ from it are an error.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer_journal.h"
#include "http/answer/answer_request.h"
#include "http/answer/cache_report.h"
#include "http/answer/fork_context.h"
#include "http/answer/slots.h"
#include "http/answer/tenant.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

struct AnswerPiece {
  std::vector<TokenId> tokens;  // empty: progress, or text that was held back for stop texts
  std::string text;             // valid UTF-8, cut between characters
  // For each token the record of the token itself, then those of the request's logprob_count most
  // likely tokens. Empty unless the request wants them.
  std::vector<wire::TokenLogprob> logprobs;
  bool is_progress = false;  // of the prompt: `done` of `total` tokens
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

enum class StopType : std::uint8_t {
  kNone,   // not ended
  kEos,    // an end token, or the grammar's end
  kLimit,  // predict_max, the end of the context, or predict_time_max
  kWord,   // a stop text
};

struct AnswerEnd {
  StopType stop_type = StopType::kNone;
  std::string stopping_word;  // with kWord
  bool is_truncated = false;  // the context was full, or was shifted
  bool ended_by_grammar = false;
  std::uint32_t prompt_tokens = 0;  // of the whole prompt, with those of its context
  // Of them, not computed; expected until the answer has ended.
  std::uint32_t cached_tokens = 0;
  std::uint32_t predicted_tokens = 0;
  std::chrono::nanoseconds prompt_time{0};
  std::chrono::nanoseconds predict_time{0};
  std::uint32_t seed = 0;
  std::uint32_t slot = 0;  // of a branch: the number of the answer among its branches
  CacheReport cache;
};

// The numbers of a prompt that exceeds the context.
struct TooLong {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t context_tokens = 0;
};
// Start fails with kInvalidArgument for such a prompt; a route calls FindTooLong before, for the
// numbers.
std::optional<TooLong> FindTooLong(const Model& model, std::size_t prompt_tokens);
// "the request exceeds the available context size ..."
std::string TooLongText(const TooLong& numbers);

class Answer {
 public:
  // Waits for the slot. Errors: kInvalidArgument (see FindTooLong; a slot that does not exist; an
  // empty prompt), those of the daemon, when it has checked the request, come from Next.
  static Await<Result<std::unique_ptr<Answer>>> Start(Tenant& tenant, AnswerRequest request);
  // Several answers (1..64) to one prompt, which is computed once. The answers draw with different
  // seeds: seed, seed + 1, ... The first one has the slot.
  static Await<Result<std::vector<std::unique_ptr<Answer>>>> StartMany(Tenant& tenant,
                                                                       AnswerRequest request,
                                                                       std::uint32_t count);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Waits for the next piece; nullopt: the answer has ended, and end() is complete. Errors: those
  // of the generation; kCancelled after Cancel.
  Await<Result<std::optional<AnswerPiece>>> Next();
  void Cancel();

  const AnswerRequest& request() const { return request_; }
  // What is known so far; complete when Next has returned nullopt.
  const AnswerEnd& end() const { return end_; }
  SequenceHandle sequence() const { return sequence_; }
  const std::shared_ptr<DaemonSession>& session() const { return session_; }

 private:
  Answer(Tenant& tenant, AnswerRequest request) : tenant_(tenant), request_(std::move(request)) {
    ResetBudget();
  }

  Await<Status> Begin();
  Await<Status> BeginInSlot();
  // Begins in the slot of lease_.
  Await<Status> BeginBehindPrefix();
  // Begins behind the context of request_.fork.
  Await<Status> BeginAtFork();
  // Begins where an earlier process has begun. The pieces of the journal come first; the slot is
  // taken only when the daemon is needed.
  Status BeginAgain(LoggedStart start);
  // Takes the slot and the sequence of the earlier process, unless the answer has them.
  Await<Status> Claim();
  // Resumes the generation of the earlier process behind the tokens of the journal.
  Await<Status> Resume();
  // Computes the answer from its prompt again.
  Await<Status> StartOver();
  // Removes what the caller had before StartOver. Errors: kConflict: the tokens differ.
  Status RemoveRepeated(GeneratedPiece& piece);
  // Makes the slot's sequence hold a prefix of the prompt, and returns the prefix's length.
  Await<Result<std::size_t>> PrepareSlot();
  // Removes the slot's tokens from `begin` on. If the model has no recurrent state, it does not
  // wait: the generation is told where it begins, and fails if it begins elsewhere (see
  // MayHaveLostTail).
  Await<Status> RemoveTail(const Slot& slot, std::size_t begin);
  // Of a failed generation: true if it was the first one and RemoveTail has not waited, so that the
  // reason may be that the tail was not removed. Then the answer begins again, and waits.
  bool MayHaveLostTail() const;
  // Replaces the slot's sequence by a new one. Returns 0.
  Await<Result<std::size_t>> TakeFreshSequence(Slot& slot);
  // Asks the daemon how much of the prompt it could reuse, and notes why not more.
  Await<std::size_t> AskWhy();
  // Starts the generation of the prompt's tokens from index `first` on and up to the wanted tokens
  // behind them; with the journal of an earlier process, continues its generation.
  Status Generate(std::size_t first, std::uint32_t flags);
  Result<std::unique_ptr<GenerationStream>> StartStream() const;
  // The next piece of the journal, then those of the daemon, which are logged.
  Await<Result<std::optional<GeneratedPiece>>> NextPiece();
  // The journal, unless the answer is computed again: then only new pieces are logged.
  AnswerJournal* log() const { return repeated_ ? nullptr : request_.journal.get(); }
  // Returns whether the generation that begins may leave out the answer's last token.
  bool MaySkipLast() const;
  void Count(const GeneratedPiece& piece);
  AnswerPiece Take(GeneratedPiece piece) const;
  // The generation has ended: continues after a shift (returns true), or completes end_.
  Await<Result<bool>> GoesOn();
  // Claims the answer's sequence for a next generation that is not in the journal. Returns true if
  // the claim has failed and the answer has started over instead.
  Await<Result<bool>> ClaimOrStartOver();
  // Starts the next generation of the answer with the sampler of the last one. `logged`: what the
  // journal has of it; nullopt: the daemon computes it.
  Status GenerateOn(std::optional<LoggedStart> logged, std::uint32_t flags);
  Await<Result<bool>> ShiftContext();
  // The generation has ended at the end of a portion of the reasoning budget: continues it, where
  // the budget is used up behind the forced tokens. Returns whether it continues.
  Await<Result<bool>> ContinueBudget();
  void ResetBudget();
  Await<std::string> FindStop();
  bool is_late() const;
  std::int32_t wanted() const;  // tokens still to predict by the request; INT32_MAX: no limit
  std::uint32_t room() const;   // tokens that still fit into the context

  Tenant& tenant_;
  AnswerRequest request_;
  std::shared_ptr<DaemonSession> session_;
  bool is_branch_ = false;  // has no slot, and drops its sequence
  SlotLease lease_;
  ForkContext::Turn turn_;
  SequenceHandle sequence_ = SequenceHandle::kNone;
  std::unique_ptr<GenerationStream> stream_;
  wire::GenerateResult result_{};  // of the last generation that has ended
  // Of the present generation.
  std::size_t first_ = 0;  // index of the first token of the prompt that it appends
  std::int32_t predict_max_ = 0;
  std::uint32_t flags_ = 0;
  LoggedStart start_;           // of the earlier process, with is_resumed_ or was_resumed_
  bool is_resumed_ = false;     // the journal has its pieces; then the daemon continues
  bool is_uncertain_ = false;   // the daemon has not said yet whether it can go on
  bool was_resumed_ = false;    // some generation of the answer was
  std::uint32_t received_ = 0;  // tokens that the journal had
  TokenId last_received_ = 0;   // the last of them; 0: none
  // After StartOver: what the caller had before, as far as it has not come again.
  struct Repeated {
    std::vector<TokenId> tokens;
    std::size_t at = 0;  // the next of `tokens`
    std::size_t text_bytes = 0;
    std::size_t text_at = 0;
    bool is_all() const { return at == tokens.size() && text_at == text_bytes; }
  };
  std::optional<Repeated> repeated_;
  std::optional<Pos> expected_pos_;  // where the first generation begins, after RemoveTail
  bool waits_for_removal_ = false;
  bool is_cancelled_ = false;
  ReasoningBudget budget_;
  std::vector<TokenId>
      appended_;  // the tokens that the present generation appends, not the prompt's
  std::optional<GeneratedPiece> forced_piece_;  // the next piece: of forced tokens
  std::optional<std::uint32_t> kept_;           // tokens before the first that a shift has removed
  AnswerEnd end_;
  std::uint32_t cells_ = 0;          // of the sequence
  std::uint32_t logprobs_sent_ = 0;  // logprob_count of the daemon's request
  std::size_t text_bytes_ = 0;       // of the answer so far
  std::vector<TokenId> predicted_;
  std::optional<std::chrono::steady_clock::time_point> first_token_;
  bool has_cancelled_late_ = false;
  bool is_result_logged_ = false;    // result_ is of the journal: it was counted before
  bool has_counted_prompt_ = false;  // end_.cached_tokens is exact
};

}  // namespace kvd::http
