#include "http/answer/answer.h"

#include <sys/random.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"
#include "http/answer/stream_buffer.h"

namespace kvd::http {

// How an answer begins, and hands on the pieces of its sources.

namespace {

namespace asio = boost::asio;

// Ends a generation that has no reader any more, and then gives its slot back, so that the next
// answer does not find a sequence on which a request computes.
Await<void> Drain(std::unique_ptr<GenerationStream> stream, [[maybe_unused]] SlotLease lease,
                  std::shared_ptr<DaemonSession> session, SequenceHandle branch) {
  stream->Cancel();
  for (;;) {
    const auto piece = co_await stream->Next();
    if (!piece || !*piece) break;
  }
  if (branch != SequenceHandle::kNone) session->DropLater(branch);
}

}  // namespace

std::optional<TooLong> FindTooLong(const ServedModel& model, std::size_t prompt_tokens) {
  if (prompt_tokens < model.slot_cells()) return std::nullopt;
  return TooLong{static_cast<std::uint32_t>(prompt_tokens), model.slot_cells()};
}

std::string TooLongText(const TooLong& numbers) {
  return Concat("request (", numbers.prompt_tokens, " tokens) exceeds the available context size (",
                numbers.context_tokens, " tokens), try increasing it");
}

std::uint32_t Answer::SeedOf(const AnswerRequest& request) {
  std::uint32_t seed = kRandomSeed;
  for (std::uint64_t i = 0; request.journal && seed == kRandomSeed; ++i) {
    const std::uint64_t nonce = request.journal->request().nonce;
    seed = static_cast<std::uint32_t>(SipHash24(nonce, i, std::to_string(request.number)));
  }
  while (seed == kRandomSeed) {
    if (::getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
  }
  return seed;
}

Answer::Answer(TenantSession& tenant, AnswerRequest request)
    : tenant_(tenant),
      request_(std::move(request)),
      count_(tenant),
      sequence_(std::make_unique<AnswerSequence>(tenant, request_)),
      daemon_(request_, *sequence_, count_),
      time_limit_(request_.predict_time_max) {
  if (request_.seed == kRandomSeed) request_.seed = SeedOf(request_);
  count_.end().seed = request_.seed;
  count_.end().prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  ResetSources();
}

void Answer::ResetSources() {
  const auto text_of = [this](std::span<const TokenId> tokens) {
    const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
    return sequence_->session()->Detokenize(tokens, flags);
  };
  budgeted_.emplace(daemon_, request_.reasoning_limit, text_of);
  shifted_.emplace(*budgeted_, *sequence_, request_.shifts_context);
}

Await<Result<std::unique_ptr<Answer>>> Answer::Start(TenantSession& tenant, AnswerRequest request) {
  std::unique_ptr<Answer> answer(new Answer(tenant, std::move(request)));
  KVD_CO_CHECK_OK(co_await answer->Begin());
  co_return answer;
}

Answer::~Answer() {
  auto stream = daemon_.TakeStream();
  if (!stream) {
    sequence_->Drop();
    return;
  }
  const SequenceHandle branch =
      sequence_->is_branch() ? sequence_->handle() : SequenceHandle::kNone;
  asio::co_spawn(tenant_.loop(),
                 Drain(std::move(stream), sequence_->TakeLease(), sequence_->session(), branch),
                 asio::detached);
}

Await<Status> Answer::Begin() {
  if (request_.prompt.empty()) co_return Fail(Code::kInvalidArgument, "prompt: empty");
  KVD_CO_CHECK_OK(sequence_->OpenSession());
  const LoggedStart* const logged =
      request_.journal ? request_.journal->FindStart(request_.number) : nullptr;
  if (logged != nullptr) co_return BeginAgain(*logged);
  if (const auto too_long = FindTooLong(tenant_.model(), request_.prompt.size())) {
    co_return Fail(Code::kInvalidArgument, TooLongText(*too_long));
  }
  if (request_.fork) co_return co_await BeginAtFork();
  co_return co_await BeginInSlot();
}

Await<Status> Answer::BeginInSlot() {
  KVD_CO_CHECK_OK(co_await sequence_->LeaseSlot());
  co_return co_await BeginBehindPrefix();
}

Await<Status> Answer::BeginBehindPrefix() {
  KVD_CO_TRY(const PromptPrefix prefix, co_await sequence_->FindPrefix());
  AnswerEnd& end = count_.end();
  end.slot = sequence_->slot()->number;
  end.cached_tokens = prefix.cached_tokens;
  end.cache = prefix.cache;
  co_return Generate(prefix.tokens, 0);
}

Await<Status> Answer::BeginAtFork() {
  KVD_CO_TRY(const ForkContext::Branch branch, co_await sequence_->TakeFork());
  AnswerEnd& end = count_.end();
  end.cached_tokens = branch.cached_tokens;
  end.prompt_time = branch.prompt_time;
  end.cache = branch.cache;
  co_return Generate(static_cast<std::uint32_t>(request_.fork->tokens().size()), 0);
}

Status Answer::BeginAgain(const LoggedStart& start) {
  sequence_->BeginAgain(start);
  count_.BeginAgain(start);
  return Generate(start.first, start.flags);
}

Status Answer::Generate(std::uint32_t first, std::uint32_t flags) {
  // A recurrent model keeps its state at the end of an answer for later prompts.
  const bool needs_last = request_.computes_last || request_.journal || request_.conversation ||
                          tenant_.model().info().state_bytes != 0;
  const std::span<const TokenId> prompt(request_.prompt);
  const std::int32_t most = request_.predict_max;
  return shifted_->Begin({.tokens = prompt.subspan(std::min<std::size_t>(first, prompt.size())),
                          .first = first,
                          .tokens_max = most < 0 ? GenerationPortion::kNoLimit : most,
                          .flags = flags,
                          .may_skip_last = !needs_last});
}

Await<Status> Answer::StartOver() {
  daemon_.StartOver();
  delivered_.StartOver();
  count_.StartOver();
  ResetSources();
  KVD_CO_CHECK_OK(co_await sequence_->TakeNew(count_.end().slot));
  if (request_.journal) request_.journal->Claim(request_.number);
  if (daemon_.is_cancelled()) co_return Fail(Code::kCancelled, "the answer was cancelled");
  co_return Generate(0, 0);
}

Await<Result<std::optional<AnswerPiece>>> Answer::NextOfSources() {
  auto piece = co_await shifted_->Next();
  const bool has_guessed = sequence_->TakeGuess();
  if (piece) co_return piece;
  if (has_guessed && !daemon_.is_cancelled()) {
    sequence_->WaitForRemovals();
    KVD_CO_CHECK_OK(co_await BeginBehindPrefix());
  } else if (daemon_.is_lost()) {
    KVD_CO_CHECK_OK(co_await StartOver());
  } else {
    co_return piece;
  }
  co_return co_await shifted_->Next();
}

void Answer::Count(const AnswerPiece& piece) {
  if (piece.is_progress) return;
  sequence_->Append(piece.tokens);
  count_.TakePiece(piece, sequence_->cells());
  if (!piece.tokens.empty() && time_limit_.IsUp()) Cancel();
}

Await<Result<std::optional<AnswerPiece>>> Answer::Next() {
  AnswerEnd& end = count_.end();
  while (end.stop_type == StopType::kNone) {
    Result<std::optional<AnswerPiece>> piece = co_await NextOfSources();
    end.is_truncated = shifted_->is_truncated();
    if (!piece) {
      const bool is_own_cancel = time_limit_.is_up() && piece.error().code == Code::kCancelled;
      if (!is_own_cancel) co_return std::unexpected(std::move(piece).error());
      end.stop_type = StopType::kLimit;
      break;
    }
    if (!*piece) {
      co_await Complete();
      break;
    }
    Count(**piece);
    KVD_CO_CHECK_OK(delivered_.Take(**piece));
    if (delivered_.has_started_over()) {
      if ((*piece)->tokens.empty() && (*piece)->text.empty()) continue;
      request_.journal->Put(**piece, request_.number);
    }
    co_return std::move(*piece);
  }
  co_return std::nullopt;
}

// How several answers to one prompt begin: the prompt is computed once, by the first answer, and
// the others continue forks of its sequence.

std::unique_ptr<Answer> Answer::BranchOf(TenantSession& tenant, const AnswerRequest& request,
                                         std::uint32_t index) {
  AnswerRequest own = request;
  own.number += index;
  own.seed += index;
  return std::unique_ptr<Answer>(new Answer(tenant, std::move(own)));
}

Result<std::vector<std::unique_ptr<Answer>>> Answer::BeginManyAgain(TenantSession& tenant,
                                                                    const AnswerRequest& request,
                                                                    std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  for (std::uint32_t i = 0; i < count; ++i) {
    answers.push_back(BranchOf(tenant, request, i));
    Answer& answer = *answers.back();
    KVD_CHECK_OK(answer.sequence_->OpenSession());
    KVD_CHECK_OK(answer.BeginAgain(*request.journal->FindStart(answer.request_.number)));
  }
  return answers;
}

Await<Result<std::unique_ptr<Answer>>> Answer::ComputePrompt(TenantSession& tenant,
                                                             AnswerRequest request) {
  request.predict_max = 0;
  request.journal = nullptr;
  request.reasoning_limit.reset();
  request.conversation = nullptr;
  KVD_CO_TRY(std::unique_ptr<Answer> answer, co_await Start(tenant, std::move(request)));
  for (;;) {
    KVD_CO_TRY(const auto piece, co_await answer->Next());
    if (!piece) co_return answer;
  }
}

Await<Result<std::vector<std::unique_ptr<Answer>>>> Answer::StartMany(TenantSession& tenant,
                                                                      AnswerRequest request,
                                                                      std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  if (count == 1) {
    KVD_CO_TRY(answers.emplace_back(), co_await Start(tenant, std::move(request)));
    co_return answers;
  }
  if (request.seed == kRandomSeed) request.seed = SeedOf(request);
  if (request.journal) {
    AnswerJournal& journal = *request.journal;
    std::uint32_t begun = 0;
    while (begun < count && journal.FindStart(request.number + begun) != nullptr) ++begun;
    if (begun == count) co_return BeginManyAgain(tenant, request, count);
    // No answer has a piece before all have begun.
    for (std::uint32_t i = 0; i < count; ++i) {
      journal.Forget(request.number + i);
      journal.Claim(request.number + i);
    }
  }
  KVD_CO_TRY(std::unique_ptr<Answer> first, co_await ComputePrompt(tenant, request));
  KVD_CO_TRY(const std::vector<SequenceHandle> forks,
             co_await first->session()->ForkMany(first->sequence(), count - 1));
  // The first answer continues in its slot.
  first->request_ = request;
  first->ResetSources();
  first->count_.end().stop_type = StopType::kNone;
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  for (std::uint32_t i = 1; i < count; ++i) {
    std::unique_ptr<Answer> branch = BranchOf(tenant, request, i);
    branch->sequence_->TakeBranch(first->session(), forks[i - 1]);
    branch->count_.end().cached_tokens = prompt_tokens;
    branch->count_.end().slot = i;
    answers.push_back(std::move(branch));
  }
  answers.insert(answers.begin(), std::move(first));
  for (const auto& answer : answers) {
    KVD_CO_CHECK_OK(answer->Generate(prompt_tokens, wire::kContinue));
  }
  co_return answers;
}

// How an answer ends: why, and what its slot and its conversation keep of it.

Await<void> Answer::FindStopType(std::uint32_t finish) {
  AnswerEnd& end = count_.end();
  switch (finish) {
    case wire::kFinishEnd: end.stop_type = StopType::kEos; break;
    case wire::kFinishGrammar:
      end.stop_type = StopType::kEos;
      end.ended_by_grammar = true;
      break;
    case wire::kFinishStop:
      end.stop_type = StopType::kWord;
      end.stopping_word = co_await FindStop();
      break;
    default: end.stop_type = StopType::kLimit;
  }
}

Await<void> Answer::Complete() {
  co_await FindStopType(daemon_.result().finish);
  if (request_.conversation && request_.number == 0 && !sequence_->is_shifted()) {
    EndedStream& conversation = *request_.conversation;
    const std::vector<TokenId>& answered = delivered_.tokens();
    conversation.model = tenant_.model().id();
    conversation.tokens = request_.prompt;
    conversation.tokens.insert(conversation.tokens.end(), answered.begin(), answered.end());
  }
  sequence_->Finish(daemon_.result().skipped != 0);
  if (request_.journal && !delivered_.has_started_over()) {
    request_.journal->PutEnd(request_.number);
  }
}

Await<std::string> Answer::FindStop() {
  if (request_.stops.size() == 1) co_return request_.stops.front();
  const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
  const auto text = co_await session()->Detokenize(delivered_.tokens(), flags);
  if (!text) co_return std::string();
  // The daemon has cut the answer where the stop text begins.
  const std::string* found = nullptr;
  std::size_t found_at = std::string::npos;
  for (const std::string& stop : request_.stops) {
    const std::size_t least = std::min(delivered_.text_bytes(), text->size());
    const std::size_t at = text->find(stop, least > 0 ? least - 1 : 0);
    if (at != std::string::npos && (found == nullptr || at < found_at)) {
      found = &stop;
      found_at = at;
    }
  }
  co_return found == nullptr ? std::string() : *found;
}

}  // namespace kvd::http
