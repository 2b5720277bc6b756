// How a prompt finds its prefix. The slot's sequence holds tokens of an earlier answer. If they are
// a prefix of the prompt, the answer continues the sequence. Otherwise the common prefix is forked,
// and the slot's sequence is retained, so that the daemon's prefix cache keeps its tail; if the tail
// is too short for that, or the client has named the slot, the tail is removed. If the daemon's
// prefix cache holds more of the prompt than the slot, the answer takes a new sequence, which takes
// the cached prefix by itself.
#include "http/answer/answer.h"

#include <sys/random.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <limits>
#include <utility>

#include "base/text.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

// The daemon shares and retains no shorter prefixes.
constexpr std::size_t kShortestShared = 16;
constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

std::uint32_t RandomSeed() {
  std::uint32_t seed = kRandomSeed;
  while (seed == kRandomSeed) {
    if (::getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
  }
  return seed;
}

// Ends a generation that nobody reads any more, and then gives its slot back, so that the next
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
  if (request.seed == kRandomSeed) request.seed = RandomSeed();
  AnswerRequest prompt = request;
  prompt.predict_max = 0;
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
    } else {
      branch.reset(new Answer(tenant, request));
      branch->session_ = answers.front()->session_;
      branch->sequence_ = forks[i - 1];
      branch->cells_ = answers.front()->cells_;
      branch->end_.prompt_tokens = branch->end_.cached_tokens = answers.front()->end_.prompt_tokens;
      branch->end_.slot = i;
    }
    branch->request_.seed = request.seed + i;
    branch->end_.seed = branch->request_.seed;
    branch->end_.stop_type = StopType::kNone;
    answers.push_back(std::move(branch));
  }
  for (const auto& answer : answers) {
    KVD_CO_CHECK_OK(answer->Generate({}, wire::kContinue));
  }
  co_return answers;
}

Answer::~Answer() {
  const bool is_branch = !lease_;
  if (!stream_) {
    if (is_branch && session_ && sequence_ != SequenceHandle::kNone) session_->DropLater(sequence_);
    return;
  }
  asio::co_spawn(tenant_.loop(),
                 Drain(std::move(stream_), std::move(lease_), session_,
                       is_branch ? sequence_ : SequenceHandle::kNone),
                 asio::detached);
}

Await<Status> Answer::Begin() {
  if (request_.seed == kRandomSeed) request_.seed = RandomSeed();
  end_.seed = request_.seed;
  if (request_.prompt.empty()) co_return Fail(Code::kInvalidArgument, "prompt: empty");
  KVD_CO_TRY(session_, tenant_.session());
  if (!request_.snapshot.empty()) co_return co_await BeginAtSnapshot();
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
  lease_ = co_await SlotLease::Acquire(tenant_.slots(), request_.slot, request_.prompt);
  // While this answer waited, the session may have failed.
  KVD_CO_TRY(session_, tenant_.session());
  end_.slot = lease_.slot().number;
  KVD_CO_TRY(const std::size_t common, co_await PrepareSlot());
  Slot& slot = lease_.slot();
  sequence_ = slot.sequence;
  slot.tokens = request_.prompt;
  slot.are_tokens_unknown = true;
  slot.is_edited = false;
  slot.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  slot.cached_tokens = slot.decoded_tokens = 0;
  end_.prompt_tokens = slot.prompt_tokens;
  cells_ = slot.prompt_tokens;
  co_return Generate(std::span<const TokenId>(request_.prompt).subspan(common), 0);
}

Await<Status> Answer::BeginAtSnapshot() {
  KVD_CO_TRY(sequence_, co_await session_->Attach(request_.snapshot));
  KVD_CO_TRY(const wire::SequenceEntry entry, co_await session_->Query(sequence_));
  const std::size_t tokens = entry.cell_count + request_.prompt.size();
  if (const auto too_long = FindTooLong(tenant_.model(), tokens)) {
    co_return Fail(Code::kInvalidArgument, TooLongText(*too_long));
  }
  cells_ = end_.prompt_tokens = static_cast<std::uint32_t>(tokens);
  end_.cache.source = "snapshot";
  co_return Generate(request_.prompt, 0);
}

Await<std::size_t> Answer::AskWhy() {
  const std::span<const TokenId> prompt(request_.prompt);
  const auto bytes = std::as_bytes(prompt);
  const auto why = co_await session_->Call(wire::WhyArgs{}, PayloadOf(bytes));
  if (!why) co_return 0;  // the report lacks the texts
  const auto text = [](const char(&bytes_of)[wire::kWhyTextBytes]) {
    return std::string(bytes_of, ::strnlen(bytes_of, sizeof bytes_of));
  };
  end_.cache.prompt_text = text(why->record.prompt_text);
  end_.cache.cached_text = text(why->record.cached_text);
  end_.cache.limit = PrefixLimitName(static_cast<PrefixLimit>(why->record.limit));
  co_return why->record.reused;
}

Await<Result<std::size_t>> Answer::TakeFreshSequence(Slot& slot) {
  if (slot.sequence != SequenceHandle::kNone) session_->RetainLater(slot.sequence);
  slot.sequence = SequenceHandle::kNone;
  KVD_CO_TRY(slot.sequence, co_await session_->Create());
  co_return 0;
}

Await<Result<std::size_t>> Answer::PrepareSlot() {
  Slot& slot = lease_.slot();
  const std::size_t reusable_max = request_.prompt.size() - 1;  // the last token is computed
  if (slot.sequence != SequenceHandle::kNone && slot.are_tokens_unknown) {
    auto tokens = co_await session_->ReadTokens(slot.sequence, 0, -1);
    if (!tokens) co_return co_await TakeFreshSequence(slot);
    slot.tokens = std::move(*tokens);
    slot.are_tokens_unknown = false;
  }
  std::size_t common = 0;
  if (request_.caches_prompt && slot.sequence != SequenceHandle::kNone) {
    const std::span<const TokenId> held(slot.tokens);
    const std::size_t usable =
        slot.is_edited ? std::min<std::size_t>(slot.kept, held.size()) : held.size();
    common = std::min(CommonPrefix(held.first(usable), request_.prompt), reusable_max);
  }
  if (request_.caches_prompt && common < reusable_max && reusable_max >= kShortestShared) {
    const std::size_t elsewhere = co_await AskWhy();
    if (elsewhere > common && !request_.slot) co_return co_await TakeFreshSequence(slot);
    if (elsewhere > common && elsewhere > kShortestShared && common < kShortestShared) {
      co_return co_await TakeFreshSequence(slot);
    }
  }
  if (common == 0) co_return co_await TakeFreshSequence(slot);
  end_.cache.source = "slot";
  const std::size_t tail = slot.tokens.size() - common;
  if (tail == 0) co_return common;
  if (request_.slot || tail < kShortestShared) {
    const PosRange range{.begin = Pos{static_cast<std::int32_t>(common)}, .end = kPosEnd};
    const Status removed = co_await session_->RemoveRange(slot.sequence, range);
    if (removed) co_return common;
  } else {
    const auto fork = co_await session_->Fork(slot.sequence, static_cast<std::int32_t>(common));
    if (fork) {
      session_->RetainLater(slot.sequence);
      slot.sequence = *fork;
      co_return common;
    }
  }
  // A sliding window or a recurrent state does not allow it.
  end_.cache.source = "none";
  co_return co_await TakeFreshSequence(slot);
}

std::int32_t Answer::wanted() const {
  if (request_.predict_max < 0) return kNoLimit;
  return request_.predict_max - static_cast<std::int32_t>(end_.predicted_tokens);
}

std::uint32_t Answer::room() const {
  const std::uint32_t most = tenant_.model().slot_cells();
  return cells_ < most ? most - cells_ : 0;
}

Status Answer::Generate(std::span<const TokenId> tokens, std::uint32_t flags) {
  const std::vector<std::string_view> stops(request_.stops.begin(), request_.stops.end());
  std::vector<std::string_view> breakers;
  if (request_.breakers) breakers.assign(request_.breakers->begin(), request_.breakers->end());
  std::vector<wire::TriggerView> triggers;
  for (const GrammarStart& start : request_.triggers) {
    triggers.push_back({.token = start.token, .text = start.text});
  }
  logprobs_sent_ = request_.wants_logprobs ? std::max(request_.logprob_count, 1u) : 0;
  const auto room_tokens = static_cast<std::int32_t>(
      std::min<std::uint32_t>(room(), static_cast<std::uint32_t>(kNoLimit)));
  GenerateOptions options{.tokens = tokens,
                          .predict_max = std::min(wanted(), room_tokens),
                          .sampling = request_.sampling,
                          .logprob_count = logprobs_sent_,
                          .seed = request_.seed,
                          .flags = flags | wire::kLlamaDraws |
                                   (request_.ignores_eos ? wire::kIgnoreEos : 0u) |
                                   (request_.shows_special ? wire::kShowSpecial : 0u),
                          .wants_progress = request_.wants_progress,
                          .shares_prefix = request_.caches_prompt,
                          .biases = request_.biases,
                          .stops = stops,
                          .grammar = request_.grammar,
                          .triggers = triggers};
  if (request_.breakers) options.breakers = breakers;
  KVD_TRY(stream_, session_->Generate(sequence_, options));
  return {};
}

bool Answer::is_late() const {
  if (!request_.predict_time_max || !first_token_) return false;
  return std::chrono::steady_clock::now() - *first_token_ > *request_.predict_time_max;
}

AnswerPiece Answer::Take(GeneratedPiece piece) {
  AnswerPiece taken{.tokens = std::move(piece.tokens),
                    .text = std::move(piece.text),
                    .logprobs = {},
                    .is_progress = piece.is_progress,
                    .done = piece.done,
                    .total = piece.total};
  if (taken.is_progress) return taken;
  if (!taken.tokens.empty() && !first_token_) first_token_ = std::chrono::steady_clock::now();
  const std::size_t records = 1 + logprobs_sent_;
  for (std::size_t i = 0; request_.wants_logprobs && (i + 1) * records <= piece.logprobs.size();
       ++i) {
    const auto own = piece.logprobs.begin() + static_cast<std::ptrdiff_t>(i * records);
    taken.logprobs.insert(taken.logprobs.end(), own, own + 1 + request_.logprob_count);
  }
  const auto count = static_cast<std::uint32_t>(taken.tokens.size());
  predicted_.insert(predicted_.end(), taken.tokens.begin(), taken.tokens.end());
  text_bytes_ += taken.text.size();
  end_.predicted_tokens += count;
  cells_ += count;
  Metrics& metrics = tenant_.metrics();
  ++metrics.pieces;
  metrics.busy_at_pieces += tenant_.slots().busy_count();
  metrics.tokens_max = std::max<std::uint64_t>(metrics.tokens_max, cells_);
  if (lease_) {
    Slot& slot = lease_.slot();
    slot.tokens.insert(slot.tokens.end(), taken.tokens.begin(), taken.tokens.end());
    slot.decoded_tokens = end_.predicted_tokens;
  }
  return taken;
}

Await<Result<std::optional<AnswerPiece>>> Answer::Next() {
  if (end_.stop_type != StopType::kNone) co_return std::nullopt;
  for (;;) {
    Result<std::optional<GeneratedPiece>> piece = co_await stream_->Next();
    if (!piece) {
      const bool is_own_cancel = has_cancelled_late_ && piece.error().code == Code::kCancelled;
      stream_.reset();
      if (!is_own_cancel) co_return std::unexpected(std::move(piece).error());
      end_.stop_type = StopType::kLimit;
      co_return std::nullopt;
    }
    if (*piece) {
      AnswerPiece taken = Take(std::move(**piece));
      if (is_late() && !has_cancelled_late_) {
        has_cancelled_late_ = true;
        stream_->Cancel();
      }
      co_return std::optional(std::move(taken));
    }
    KVD_CO_TRY(const bool goes_on, co_await GoesOn());
    if (!goes_on) co_return std::nullopt;
  }
}

Await<Result<bool>> Answer::GoesOn() {
  const wire::GenerateResult result = stream_->result();
  Metrics& metrics = tenant_.metrics();
  const std::chrono::nanoseconds prompt_time(result.prompt_ns);
  const std::chrono::nanoseconds predict_time(result.predict_ns);
  metrics.prompt_time += prompt_time;
  metrics.predict_time += predict_time;
  metrics.prompt_tokens_computed += result.prompt_computed;
  metrics.predicted_tokens += result.predicted;
  end_.prompt_time += prompt_time;
  end_.predict_time += predict_time;
  const bool is_first = end_.prompt_tokens != 0 && end_.cached_tokens == 0;
  if (is_first) {
    end_.cached_tokens = end_.prompt_tokens - std::min(result.prompt_computed, end_.prompt_tokens);
    end_.cache.reused = end_.cached_tokens;
    metrics.prompt_tokens_cached += end_.cached_tokens;
    if (lease_) lease_.slot().cached_tokens = end_.cached_tokens;
    if (result.prompt_shared != 0) {
      end_.cache.source = PrefixOriginName(static_cast<PrefixOrigin>(result.shared_origin));
      end_.cache.limit = PrefixLimitName(static_cast<PrefixLimit>(result.share_limit));
    }
    if (end_.cached_tokens + 1 == end_.prompt_tokens) {
      end_.cache.limit = PrefixLimitName(PrefixLimit::kComplete);
      end_.cache.prompt_text.clear();
      end_.cache.cached_text.clear();
    }
  }
  switch (result.finish) {
    case wire::kFinishEnd: end_.stop_type = StopType::kEos; break;
    case wire::kFinishGrammar:
      end_.stop_type = StopType::kEos;
      end_.ended_by_grammar = true;
      break;
    case wire::kFinishStop:
      end_.stop_type = StopType::kWord;
      end_.stopping_word = co_await FindStop();
      break;
    default: {
      const bool is_full = room() == 0 && wanted() > 0;
      end_.is_truncated = end_.is_truncated || is_full;
      if (is_full && request_.shifts_context) {
        KVD_CO_TRY(const bool has_shifted, co_await ShiftContext());
        if (has_shifted) co_return true;
      }
      end_.stop_type = StopType::kLimit;
    }
  }
  stream_.reset();
  if (lease_) lease_.slot().are_tokens_unknown = false;
  co_return false;
}

Await<Result<bool>> Answer::ShiftContext() {
  const wire::InfoReply& info = tenant_.model().info();
  const std::uint32_t most = tenant_.model().slot_cells();
  std::uint32_t keep =
      request_.keep < 0 ? end_.prompt_tokens : static_cast<std::uint32_t>(request_.keep);
  keep += info.adds_bos != 0 ? 1 : 0;
  keep = std::min(keep, most > 4 ? most - 4 : 0);
  const std::uint32_t removed = (cells_ - keep) / 2;
  if (removed == 0) co_return false;
  const Pos begin{static_cast<std::int32_t>(keep)};
  const Pos end{static_cast<std::int32_t>(keep + removed)};
  const Status has_removed =
      co_await session_->RemoveRange(sequence_, {.begin = begin, .end = end});
  if (!has_removed) co_return false;
  KVD_CO_CHECK_OK(co_await session_->Shift(sequence_, {.begin = end, .end = kPosEnd},
                                           -static_cast<std::int32_t>(removed)));
  cells_ -= removed;
  if (lease_) {
    Slot& slot = lease_.slot();
    const auto first = slot.tokens.begin() + keep;
    if (slot.tokens.size() >= keep + removed) slot.tokens.erase(first, first + removed);
    slot.kept = slot.is_edited ? std::min(slot.kept, keep) : keep;
    slot.is_edited = true;
  }
  KVD_CO_CHECK_OK(Generate({}, wire::kContinue | wire::kResumeSampler));
  co_return true;
}

Await<std::string> Answer::FindStop() {
  if (request_.stops.size() == 1) co_return request_.stops.front();
  const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
  const auto text = co_await session_->Detokenize(predicted_, flags);
  if (!text) co_return std::string();
  // The daemon has cut the answer where the stop text begins.
  const std::string* found = nullptr;
  std::size_t found_at = std::string::npos;
  for (const std::string& stop : request_.stops) {
    const std::size_t least = std::min(text_bytes_, text->size());
    std::size_t at = text->find(stop, least > 0 ? least - 1 : 0);
    if (at != std::string::npos && (found == nullptr || at < found_at)) {
      found = &stop;
      found_at = at;
    }
  }
  co_return found == nullptr ? std::string() : *found;
}

void Answer::Cancel() {
  if (stream_) stream_->Cancel();
}

}  // namespace kvd::http
