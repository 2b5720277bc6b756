// An answer of the model to one request, and the limit of its time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer_count.h"
#include "http/answer/answer_request.h"
#include "http/answer/answer_sequence.h"
#include "http/answer/daemon_source.h"
#include "http/answer/delivered_prefix.h"
#include "http/answer/piece_source.h"
#include "http/answer/tenant_session.h"
#include "http/backend/answer_piece.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

// TimeLimit: the limit of the time of an answer from its first token on.
class TimeLimit {
 public:
  // nullopt: none.
  explicit TimeLimit(std::optional<std::chrono::milliseconds> most) : most_(most) {}

  // The answer has had tokens. Returns true when it has to end, once.
  bool IsUp() {
    if (!most_ || is_up_) return false;
    using Clock = std::chrono::steady_clock;
    if (!first_token_) first_token_ = Clock::now();
    is_up_ = Clock::now() - *first_token_ > *most_;
    return is_up_;
  }
  // IsUp has returned true.
  bool is_up() const { return is_up_; }

 private:
  std::optional<std::chrono::milliseconds> most_;
  std::optional<std::chrono::steady_clock::time_point> first_token_;
  bool is_up_ = false;
};

// The numbers of a prompt that exceeds the context.
struct TooLong {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t context_tokens = 0;
};
// Start fails with kInvalidArgument for such a prompt; a route calls FindTooLong before, for the
// numbers.
std::optional<TooLong> FindTooLong(const ServedModel& model, std::size_t prompt_tokens);
// "the request exceeds the available context size ..."
std::string TooLongText(const TooLong& numbers);

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
// The pieces come from sources that lie over each other (answer/piece_source.h). An answer whose
// journal has records of an earlier process takes those first, and then resumes the generation in
// the daemon. Where the daemon cannot resume it (its session or sequence is gone), the answer is
// computed from its prompt again, with the same seed: what the caller has had already is left out
// (answer/delivered_prefix.h), and tokens that differ from it are an error.
class Answer {
 public:
  // Waits for the slot. Errors: kInvalidArgument (see FindTooLong; a slot that does not exist; an
  // empty prompt), those of the daemon, when it has checked the request, come from Next.
  static Await<Result<std::unique_ptr<Answer>>> Start(TenantSession& tenant, AnswerRequest request);
  // Several answers (1..64) to one prompt, which is computed once. The answers draw with different
  // seeds: seed, seed + 1, ... The first one has the slot.
  static Await<Result<std::vector<std::unique_ptr<Answer>>>> StartMany(TenantSession& tenant,
                                                                       AnswerRequest request,
                                                                       std::uint32_t count);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Waits for the next piece; nullopt: the answer has ended, and end() is complete. Errors: those
  // of the generation; kCancelled after Cancel.
  Await<Result<std::optional<AnswerPiece>>> Next();
  void Cancel() { daemon_.Cancel(); }

  const AnswerRequest& request() const { return request_; }
  // What is known so far; complete when Next has returned nullopt.
  const AnswerEnd& end() const { return count_.end(); }
  SequenceHandle sequence() const { return sequence_->handle(); }
  const std::shared_ptr<DaemonSession>& session() const { return sequence_->session(); }

 private:
  Answer(TenantSession& tenant, AnswerRequest request);

  Await<Status> Begin();
  Await<Status> BeginInSlot();
  // Begins behind what the slot's sequence holds of the prompt.
  Await<Status> BeginBehindPrefix();
  // Begins behind the context of request_.fork.
  Await<Status> BeginAtFork();
  // Begins where an earlier process has begun. The slot is taken only when the daemon is needed.
  Status BeginAgain(const LoggedStart& start);
  // Begins the generation of the prompt's tokens from index `first` on.
  Status Generate(std::uint32_t first, std::uint32_t flags);
  // Of StartMany: all answers where an earlier process has begun them.
  static Result<std::vector<std::unique_ptr<Answer>>> BeginManyAgain(TenantSession& tenant,
                                                                     const AnswerRequest& request,
                                                                     std::uint32_t count);
  // Of StartMany: the answer to the prompt alone, which has ended.
  static Await<Result<std::unique_ptr<Answer>>> ComputePrompt(TenantSession& tenant,
                                                              AnswerRequest request);
  // The answer `index` of StartMany.
  static std::unique_ptr<Answer> BranchOf(TenantSession& tenant, const AnswerRequest& request,
                                          std::uint32_t index);
  // A random seed, which is the same one when the request of a journal runs again.
  static std::uint32_t SeedOf(const AnswerRequest& request);
  // Computes the answer from its prompt again.
  Await<Status> StartOver();
  // Builds the sources anew.
  void ResetSources();
  // The next piece of the sources. Begins again after errors that this can repair.
  Await<Result<std::optional<AnswerPiece>>> NextOfSources();
  void Count(const AnswerPiece& piece);
  // The last generation has ended: completes end().
  Await<void> Complete();
  // Why the last generation has ended.
  Await<void> FindStopType(std::uint32_t finish);
  Await<std::string> FindStop();

  TenantSession& tenant_;
  AnswerRequest request_;
  AnswerCount count_;
  std::unique_ptr<AnswerSequence> sequence_;
  DaemonSource daemon_;
  std::optional<BudgetedSource> budgeted_;  // over daemon_
  std::optional<ShiftedSource> shifted_;    // over budgeted_
  DeliveredPrefix delivered_;
  TimeLimit time_limit_;
};

}  // namespace kvd::http
