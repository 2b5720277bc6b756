// An answer is one generation of the daemon, or several with shifts of the context between them.
// With a journal each piece is logged before the caller sees it.
#include "http/answer/answer.h"

#include <sys/random.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <limits>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

// The daemon takes 0 as "any seed"; with llama.cpp's draws only the low 32 bits count.
constexpr std::uint64_t kSeedBit = std::uint64_t{1} << 32;
constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

// A random seed, which is the same one when the request of a journal runs again.
std::uint32_t SeedOf(const AnswerRequest& request) {
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

Await<Result<std::unique_ptr<Answer>>> Answer::Start(Tenant& tenant, AnswerRequest request) {
  std::unique_ptr<Answer> answer(new Answer(tenant, std::move(request)));
  KVD_CO_CHECK_OK(co_await answer->Begin());
  co_return answer;
}

Await<Result<std::vector<std::unique_ptr<Answer>>>> Answer::StartMany(Tenant& tenant,
                                                                      AnswerRequest request,
                                                                      std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  if (count == 1) {
    KVD_CO_TRY(answers.emplace_back(), co_await Start(tenant, std::move(request)));
    co_return answers;
  }
  if (request.seed == kRandomSeed) request.seed = SeedOf(request);
  const auto branch_of = [&](std::uint32_t index) {
    std::unique_ptr<Answer> branch(new Answer(tenant, request));
    branch->request_.number += index;
    branch->request_.seed += index;
    branch->end_.seed = branch->request_.seed;
    return branch;
  };
  if (request.journal) {
    AnswerJournal& journal = *request.journal;
    std::uint32_t begun = 0;
    while (begun < count && journal.HasStart(request.number + begun)) ++begun;
    if (begun == count) {
      KVD_CO_TRY(const auto session, tenant.session());
      for (std::uint32_t i = 0; i < count; ++i) {
        answers.push_back(branch_of(i));
        answers.back()->session_ = session;
        KVD_CO_CHECK_OK(answers.back()->BeginAgain(*journal.TakeStart(request.number + i)));
      }
      co_return answers;
    }
    // No answer has a piece before all have begun.
    for (std::uint32_t i = 0; i < count; ++i) {
      journal.Forget(request.number + i);
      journal.Claim(request.number + i);
    }
  }
  AnswerRequest prompt = request;
  prompt.predict_max = 0;
  prompt.journal = nullptr;
  prompt.reasoning_limit.reset();
  prompt.conversation = nullptr;
  KVD_CO_TRY(std::unique_ptr<Answer> first, co_await Start(tenant, std::move(prompt)));
  for (;;) {
    KVD_CO_TRY(const auto piece, co_await first->Next());
    if (!piece) break;
  }
  KVD_CO_TRY(const std::vector<SequenceHandle> forks,
             co_await first->session_->ForkMany(first->sequence_, count - 1));
  for (std::uint32_t i = 0; i < count; ++i) {
    std::unique_ptr<Answer> branch;
    if (i == 0) {
      branch = std::move(first);
      branch->request_ = request;
      branch->ResetBudget();
      branch->end_.seed = request.seed;
      branch->end_.stop_type = StopType::kNone;
    } else {
      branch = branch_of(i);
      branch->session_ = answers.front()->session_;
      branch->sequence_ = forks[i - 1];
      branch->is_branch_ = true;
      branch->cells_ = answers.front()->cells_;
      branch->end_.prompt_tokens = branch->end_.cached_tokens = answers.front()->end_.prompt_tokens;
      branch->end_.slot = i;
    }
    answers.push_back(std::move(branch));
  }
  for (const auto& answer : answers) {
    KVD_CO_CHECK_OK(answer->Generate(answer->request_.prompt.size(), wire::kContinue));
  }
  co_return answers;
}

Answer::~Answer() {
  if (!stream_) {
    if (is_branch_ && session_ && sequence_ != SequenceHandle::kNone) {
      session_->DropLater(sequence_);
    }
    return;
  }
  asio::co_spawn(tenant_.loop(),
                 Drain(std::move(stream_), std::move(lease_), session_,
                       is_branch_ ? sequence_ : SequenceHandle::kNone),
                 asio::detached);
}

Await<Status> Answer::Begin() {
  if (request_.seed == kRandomSeed) request_.seed = SeedOf(request_);
  end_.seed = request_.seed;
  if (request_.prompt.empty()) co_return Fail(Code::kInvalidArgument, "prompt: empty");
  KVD_CO_TRY(session_, tenant_.session());
  if (request_.journal) {
    if (auto start = request_.journal->TakeStart(request_.number)) {
      co_return BeginAgain(std::move(*start));
    }
  }
  if (request_.fork) co_return co_await BeginAtFork();
  co_return co_await BeginInSlot();
}

Await<Status> Answer::BeginInSlot() {
  if (const auto too_long = FindTooLong(tenant_.model(), request_.prompt.size())) {
    co_return Fail(Code::kInvalidArgument, TooLongText(*too_long));
  }
  if (request_.slot && *request_.slot >= tenant_.slots().count()) {
    co_return Fail(Code::kInvalidArgument, "id_slot: ", *request_.slot, " is not within 0 to ",
                   tenant_.slots().count() - 1);
  }
  {
    const AttemptPause pause(request_.journal.get());
    lease_ = co_await SlotLease::Acquire(tenant_.slots(), request_.slot, request_.prompt);
  }
  co_return co_await BeginBehindPrefix();
}

Await<Status> Answer::BeginBehindPrefix() {
  // While this answer waited, the session may have failed.
  KVD_CO_TRY(session_, tenant_.session());
  end_.slot = lease_.slot().number;
  KVD_CO_TRY(const std::size_t common, co_await PrepareSlot());
  Slot& slot = lease_.slot();
  sequence_ = slot.sequence;
  lease_.Note();
  slot.tokens = request_.prompt;
  slot.are_tokens_unknown = true;
  slot.is_edited = false;
  slot.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  slot.cached_tokens = slot.decoded_tokens = 0;
  end_.prompt_tokens = slot.prompt_tokens;
  end_.cached_tokens = std::max(end_.cached_tokens, static_cast<std::uint32_t>(common));
  cells_ = slot.prompt_tokens;
  co_return Generate(common, 0);
}

Await<Status> Answer::BeginAtFork() {
  if (const auto too_long = FindTooLong(tenant_.model(), request_.prompt.size())) {
    co_return Fail(Code::kInvalidArgument, TooLongText(*too_long));
  }
  KVD_CO_TRY(ForkContext::Branch branch, co_await request_.fork->Take());
  is_branch_ = true;
  session_ = std::move(branch.session);
  sequence_ = branch.sequence;
  turn_ = std::move(branch.turn);
  cells_ = end_.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  end_.cached_tokens = branch.cached_tokens;
  end_.prompt_time = branch.prompt_time;
  end_.cache = std::move(branch.cache);
  co_return Generate(request_.fork->tokens().size(), 0);
}

std::int32_t Answer::wanted() const {
  if (request_.predict_max < 0) return kNoLimit;
  return request_.predict_max - static_cast<std::int32_t>(end_.predicted_tokens);
}

std::uint32_t Answer::room() const {
  const std::uint32_t most = tenant_.model().slot_cells();
  return cells_ < most ? most - cells_ : 0;
}

Result<std::unique_ptr<GenerationStream>> Answer::StartStream() const {
  const std::vector<std::string_view> stops(request_.stops.begin(), request_.stops.end());
  std::vector<std::string_view> breakers;
  if (request_.breakers) breakers.assign(request_.breakers->begin(), request_.breakers->end());
  std::vector<wire::TriggerView> triggers;
  for (const GrammarStart& start : request_.triggers) {
    triggers.push_back({.token = start.token, .text = start.text});
  }
  const std::span<const TokenId> prompt(request_.prompt);
  GenerateOptions options{.tokens = appended_.empty() ? prompt.subspan(first_) : appended_,
                          .pos = expected_pos_,
                          .predict_max = predict_max_,
                          .sampling = request_.sampling,
                          .logprob_count = logprobs_sent_,
                          .seed = kSeedBit | request_.seed,
                          .flags = flags_ | wire::kLlamaDraws |
                                   (request_.ignores_eos ? wire::kIgnoreEos : 0u) |
                                   (request_.shows_special ? wire::kShowSpecial : 0u),
                          .wants_progress = request_.wants_progress && appended_.empty(),
                          .shares_prefix = request_.caches_prompt,
                          .biases = request_.biases,
                          .stops = stops,
                          .grammar = request_.grammar,
                          .triggers = triggers};
  if (request_.breakers) options.breakers = breakers;
  if (is_resumed_) {
    return session_->ResumeGenerate(static_cast<RequestId>(start_.request), sequence_, options,
                                    received_, last_received_);
  }
  return session_->Generate(sequence_, options);
}

Status Answer::Generate(std::size_t first, std::uint32_t flags) {
  first_ = first;
  flags_ = flags;
  received_ = 0;
  last_received_ = 0;
  const auto room_tokens = static_cast<std::int32_t>(
      std::min<std::uint32_t>(room(), static_cast<std::uint32_t>(kNoLimit)));
  predict_max_ = std::min(wanted(), room_tokens);
  if (!budget_.is_over()) {
    predict_max_ = std::min(predict_max_, static_cast<std::int32_t>(budget_.room()));
  }
  if (MaySkipLast()) flags_ |= wire::kSkipLast;
  if (lease_) lease_.slot().lacks_last = (flags_ & wire::kSkipLast) != 0;
  logprobs_sent_ = request_.wants_logprobs ? std::max(request_.logprob_count, 1u) : 0;
  if (is_resumed_) return {};  // NextPiece continues it behind the logged pieces
  KVD_TRY(stream_, StartStream());
  if (log() == nullptr) return {};
  log()->Put(LoggedStart{.request = static_cast<std::uint64_t>(stream_->request()),
                         .sequence = static_cast<std::uint64_t>(sequence_),
                         .session = session_->mark(),
                         .slot = end_.slot,
                         .cells = cells_,
                         .first = static_cast<std::uint32_t>(first),
                         .flags = flags,
                         .prompt_tokens = end_.prompt_tokens,
                         .cached_tokens = end_.cached_tokens,
                         .has_counted_prompt = has_counted_prompt_,
                         .is_branch = is_branch_,
                         .is_first = (flags & wire::kResumeSampler) == 0,
                         .cache = end_.cache},
             request_.number);
  return {};
}

bool Answer::MaySkipLast() const {
  // A recurrent model keeps its state at the end of an answer for later prompts.
  if (request_.computes_last || request_.journal || request_.conversation ||
      tenant_.model().info().state_bytes != 0) {
    return false;
  }
  // A budget or a shift may continue an answer that ends before its own limit.
  return predict_max_ == wanted() || (budget_.is_over() && !request_.shifts_context);
}

bool Answer::is_late() const {
  if (!request_.predict_time_max || !first_token_) return false;
  return std::chrono::steady_clock::now() - *first_token_ > *request_.predict_time_max;
}

bool Answer::MayHaveLostTail() const {
  return expected_pos_ && !is_cancelled_ && !session_->is_failed();
}

void Answer::Count(const GeneratedPiece& piece) {
  if (piece.is_progress) return;
  if (!piece.tokens.empty() && !first_token_) first_token_ = std::chrono::steady_clock::now();
  const auto count = static_cast<std::uint32_t>(piece.tokens.size());
  if (!budget_.is_over()) budget_.Take(piece.tokens, piece.text);
  predicted_.insert(predicted_.end(), piece.tokens.begin(), piece.tokens.end());
  text_bytes_ += piece.text.size();
  end_.predicted_tokens += count;
  cells_ += count;
  Metrics& metrics = tenant_.metrics();
  ++metrics.pieces;
  metrics.busy_at_pieces += tenant_.slots().busy_count();
  metrics.tokens_max = std::max<std::uint64_t>(metrics.tokens_max, cells_);
  if (lease_) {
    Slot& slot = lease_.slot();
    slot.tokens.insert(slot.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    slot.decoded_tokens = end_.predicted_tokens;
  }
}

AnswerPiece Answer::Take(GeneratedPiece piece) const {
  AnswerPiece taken{.tokens = std::move(piece.tokens),
                    .text = std::move(piece.text),
                    .logprobs = {},
                    .is_progress = piece.is_progress,
                    .done = piece.done,
                    .total = piece.total};
  const std::size_t records = 1 + logprobs_sent_;
  for (std::size_t i = 0; request_.wants_logprobs && (i + 1) * records <= piece.logprobs.size();
       ++i) {
    const auto own = piece.logprobs.begin() + static_cast<std::ptrdiff_t>(i * records);
    taken.logprobs.insert(taken.logprobs.end(), own, own + 1 + request_.logprob_count);
  }
  return taken;
}

Await<Result<std::optional<AnswerPiece>>> Answer::Next() {
  if (end_.stop_type != StopType::kNone) co_return std::nullopt;
  for (;;) {
    const bool is_forced = forced_piece_.has_value();
    Result<std::optional<GeneratedPiece>> piece = std::exchange(forced_piece_, std::nullopt);
    if (!is_forced) piece = co_await NextPiece();
    if (!piece && MayHaveLostTail()) {
      expected_pos_.reset();
      waits_for_removal_ = true;
      stream_.reset();
      KVD_CO_CHECK_OK(co_await BeginBehindPrefix());
      continue;
    }
    expected_pos_.reset();
    if (!piece) {
      const bool is_own_cancel = has_cancelled_late_ && piece.error().code == Code::kCancelled;
      stream_.reset();
      if (!is_own_cancel) co_return std::unexpected(std::move(piece).error());
      end_.stop_type = StopType::kLimit;
      co_return std::nullopt;
    }
    if (*piece) {
      if (!is_forced) Count(**piece);
      if (is_late() && !has_cancelled_late_) {
        has_cancelled_late_ = true;
        Cancel();
      }
      if (repeated_) {
        KVD_CO_CHECK_OK(RemoveRepeated(**piece));
        if ((*piece)->tokens.empty() && (*piece)->text.empty()) continue;
        request_.journal->Put(**piece, request_.number);
      }
      co_return std::optional(Take(std::move(**piece)));
    }
    KVD_CO_TRY(const bool goes_on, co_await GoesOn());
    if (!goes_on) co_return std::nullopt;
  }
}

void Answer::Cancel() {
  is_cancelled_ = true;
  if (stream_) stream_->Cancel();
}

}  // namespace kvd::http
