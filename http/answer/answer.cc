// How an answer begins, and hands on the pieces of its sources.
#include "http/answer/answer.h"

#include <sys/random.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"

namespace kvd::http {
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

std::optional<TooLong> FindTooLong(const Model& model, std::size_t prompt_tokens) {
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

Answer::Answer(Tenant& tenant, AnswerRequest request)
    : tenant_(tenant),
      request_(std::move(request)),
      count_(tenant),
      place_(std::make_unique<AnswerPlace>(tenant, request_)),
      daemon_(request_, *place_, count_),
      time_limit_(request_.predict_time_max) {
  if (request_.seed == kRandomSeed) request_.seed = SeedOf(request_);
  count_.end().seed = request_.seed;
  count_.end().prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  ResetSources();
}

void Answer::ResetSources() {
  const auto text_of = [this](std::span<const TokenId> tokens) {
    const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
    return place_->session()->Detokenize(tokens, flags);
  };
  budgeted_.emplace(daemon_, request_.reasoning_limit, text_of);
  shifted_.emplace(*budgeted_, *place_, request_.shifts_context);
}

Await<Result<std::unique_ptr<Answer>>> Answer::Start(Tenant& tenant, AnswerRequest request) {
  std::unique_ptr<Answer> answer(new Answer(tenant, std::move(request)));
  KVD_CO_CHECK_OK(co_await answer->Begin());
  co_return answer;
}

Answer::~Answer() {
  auto stream = daemon_.TakeStream();
  if (!stream) {
    place_->Drop();
    return;
  }
  const SequenceHandle branch = place_->is_branch() ? place_->sequence() : SequenceHandle::kNone;
  asio::co_spawn(tenant_.loop(),
                 Drain(std::move(stream), place_->TakeLease(), place_->session(), branch),
                 asio::detached);
}

Await<Status> Answer::Begin() {
  if (request_.prompt.empty()) co_return Fail(Code::kInvalidArgument, "prompt: empty");
  KVD_CO_CHECK_OK(place_->OpenSession());
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
  KVD_CO_CHECK_OK(co_await place_->LeaseSlot());
  co_return co_await BeginBehindPrefix();
}

Await<Status> Answer::BeginBehindPrefix() {
  KVD_CO_TRY(const PromptPrefix prefix, co_await place_->FindPrefix());
  AnswerEnd& end = count_.end();
  end.slot = place_->slot()->number;
  end.cached_tokens = prefix.cached_tokens;
  end.cache = prefix.cache;
  co_return Generate(prefix.tokens, 0);
}

Await<Status> Answer::BeginAtFork() {
  KVD_CO_TRY(const ForkContext::Branch branch, co_await place_->TakeFork());
  AnswerEnd& end = count_.end();
  end.cached_tokens = branch.cached_tokens;
  end.prompt_time = branch.prompt_time;
  end.cache = branch.cache;
  co_return Generate(static_cast<std::uint32_t>(request_.fork->tokens().size()), 0);
}

Status Answer::BeginAgain(const LoggedStart& start) {
  place_->BeginAgain(start);
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
                          .tokens_max = most < 0 ? GenerationPart::kNoLimit : most,
                          .flags = flags,
                          .may_skip_last = !needs_last});
}

Await<Status> Answer::StartOver() {
  daemon_.StartOver();
  delivered_.StartOver();
  count_.StartOver();
  ResetSources();
  KVD_CO_CHECK_OK(co_await place_->TakeNew(count_.end().slot));
  if (request_.journal) request_.journal->Claim(request_.number);
  if (daemon_.is_cancelled()) co_return Fail(Code::kCancelled, "the answer was cancelled");
  co_return Generate(0, 0);
}

Await<Result<std::optional<AnswerPiece>>> Answer::NextOfSources() {
  auto piece = co_await shifted_->Next();
  const bool has_guessed = place_->TakeGuess();
  if (piece) co_return piece;
  if (has_guessed && !daemon_.is_cancelled()) {
    place_->WaitForRemovals();
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
  place_->Append(piece.tokens);
  count_.TakePiece(piece, place_->cells());
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

}  // namespace kvd::http
