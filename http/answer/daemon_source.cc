#include "http/answer/daemon_source.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace kvd::http {
namespace {

// The daemon takes 0 as "any seed"; with llama.cpp's draws only the low 32 bits count.
constexpr std::uint64_t kSeedBit = std::uint64_t{1} << 32;

}  // namespace

std::uint32_t DaemonSource::sent_logprobs() const {
  return request_.wants_logprobs ? std::max(request_.logprob_count, 1u) : 0;
}

Result<std::unique_ptr<GenerationStream>> DaemonSource::StartStream() const {
  const std::vector<std::string_view> stops(request_.stops.begin(), request_.stops.end());
  std::vector<std::string_view> breakers;
  if (request_.breakers) breakers.assign(request_.breakers->begin(), request_.breakers->end());
  std::vector<wire::TriggerView> triggers;
  for (const GrammarStart& start : request_.triggers) {
    triggers.push_back({.token = start.token, .text = start.text});
  }
  const bool is_forced = !portion_.tokens.empty() && portion_.first == request_.prompt.size();
  GenerateOptions options{.tokens = portion_.tokens,
                          .pos = sequence_.expected_pos(),
                          .predict_max = portion_.tokens_max,
                          .sampling = request_.sampling,
                          .logprob_count = sent_logprobs(),
                          .seed = kSeedBit | request_.seed,
                          .flags = portion_.flags | wire::kLlamaDraws | wire::kTellParking |
                                   (request_.ignores_eos ? wire::kIgnoreEos : 0u) |
                                   (request_.shows_special ? wire::kShowSpecial : 0u),
                          .wants_progress = request_.wants_progress && !is_forced,
                          .shares_prefix = request_.caches_prompt,
                          .room_wait_ms = request_.room_wait_ms,
                          .biases = request_.biases,
                          .stops = stops,
                          .grammar = request_.grammar,
                          .triggers = triggers};
  if (request_.breakers) options.breakers = breakers;
  DaemonSession& session = *sequence_.session();
  auto stream =
      stage_ != Stage::kAsked
          ? session.Generate(sequence_.handle(), options)
          : session.ResumeGenerate(static_cast<RequestId>(start_.request), sequence_.handle(),
                                   options, received_, last_received_);
  if (stream) {
    (*stream)->OnParking(
        [&sequence = sequence_](bool is_parked) { sequence.NoteParking(is_parked); });
  }
  return stream;
}

Status DaemonSource::Begin(const GenerationPortion& portion) {
  portion_ = portion;
  received_ = 0;
  last_received_ = 0;
  if (portion.may_skip_last) portion_.flags |= wire::kSkipLast;
  sequence_.NoteSkip(portion.may_skip_last);
  auto start = log() != nullptr ? log()->TakeStart(request_.number) : std::nullopt;
  stage_ = start ? Stage::kLogged : Stage::kRuns;
  if (start) {
    start_ = std::move(*start);
    return {};
  }
  KVD_TRY(stream_, StartStream());
  if (log() != nullptr) LogStart();
  return {};
}

void DaemonSource::LogStart() {
  const AnswerEnd& end = count_.end();
  log()->Put(LoggedStart{.request = static_cast<std::uint64_t>(stream_->request()),
                         .sequence = static_cast<std::uint64_t>(sequence_.handle()),
                         .session = sequence_.session()->mark(),
                         .slot = end.slot,
                         .cells = sequence_.cells(),
                         .first = portion_.first,
                         .flags = portion_.flags,
                         .prompt_tokens = end.prompt_tokens,
                         .cached_tokens = end.cached_tokens,
                         .has_counted_prompt = count_.has_counted_prompt(),
                         .is_branch = sequence_.is_branch(),
                         .is_first = (portion_.flags & wire::kResumeSampler) == 0,
                         .cache = end.cache},
             request_.number);
}

Await<Status> DaemonSource::Claim() {
  if (sequence_.handle() != SequenceHandle::kNone) co_return Status();
  KVD_CO_CHECK_OK(co_await sequence_.Claim(start_, count_.end()));
  journal()->Claim(request_.number);
  co_return Status();
}

Await<Result<bool>> DaemonSource::Prepare() {
  if (log() != nullptr && log()->FindStart(request_.number) != nullptr) co_return false;
  const Status claimed = co_await Claim();
  is_lost_ = !claimed;
  if (!claimed) co_return std::unexpected(claimed.error());
  co_return true;
}

Await<Status> DaemonSource::Resume() {
  stage_ = Stage::kAsked;
  KVD_CO_CHECK_OK(co_await Claim());
  KVD_CO_TRY(stream_, StartStream());
  co_return Status();
}

std::optional<AnswerPiece> DaemonSource::NextLogged() {
  auto piece = journal()->TakePiece(request_.number);
  if (piece && !piece->tokens.empty()) {
    received_ += static_cast<std::uint32_t>(piece->tokens.size());
    last_received_ = piece->tokens.back();
  }
  return piece;
}

void DaemonSource::EndWith(const wire::GenerateResult& result, bool is_logged) {
  result_ = result;
  stage_ = Stage::kRuns;
  stream_.reset();
  count_.TakeResult(result, portion_.first, sequence_.is_branch(), is_logged);
  if (GatewaySlot* const slot = sequence_.slot()) slot->cached_tokens = count_.end().cached_tokens;
}

std::unexpected<Error> DaemonSource::EndWith(Error error) {
  const bool is_uncertain = stage_ == Stage::kAsked;
  is_lost_ = journal() != nullptr && error.code != Code::kCancelled &&
             (is_uncertain || error.code == Code::kSessionLost);
  stream_.reset();
  return std::unexpected(std::move(error));
}

void DaemonSource::TrimLogprobs(AnswerPiece& piece) const {
  const std::size_t sent = 1 + sent_logprobs();
  const std::size_t wanted = 1 + std::size_t{request_.logprob_count};
  if (sent == wanted || piece.logprobs.empty()) return;
  std::vector<wire::TokenLogprob> kept;
  for (std::size_t i = 0; i + sent <= piece.logprobs.size(); i += sent) {
    const auto own = piece.logprobs.begin() + static_cast<std::ptrdiff_t>(i);
    kept.insert(kept.end(), own, own + static_cast<std::ptrdiff_t>(wanted));
  }
  piece.logprobs = std::move(kept);
}

Await<Result<std::optional<AnswerPiece>>> DaemonSource::Next() {
  if (stage_ == Stage::kLogged) {
    if (auto piece = NextLogged()) co_return piece;
    if (const auto result = journal()->TakeResult(request_.number)) {
      EndWith(*result, true);
      co_return std::nullopt;
    }
    if (is_cancelled_) co_return EndWith(Error{Code::kCancelled, "the answer was cancelled"});
    Status resumed = co_await Resume();
    if (!resumed) co_return EndWith(std::move(resumed).error());
  }
  if (!stream_) co_return EndWith(Error{Code::kInternal, "no generation"});
  std::optional<AnswerPiece> next;
  {
    const AttemptPause pause(journal());
    Result<std::optional<AnswerPiece>> piece = co_await stream_->Next();
    if (!piece) co_return EndWith(std::move(piece).error());
    next = std::move(*piece);
  }
  if (next) {
    stage_ = Stage::kRuns;
    TrimLogprobs(*next);
    if (log() != nullptr) log()->Put(*next, request_.number);
    co_return next;
  }
  const wire::GenerateResult result = stream_->result();
  EndWith(result, false);
  if (log() != nullptr) log()->Put(result, request_.number);
  co_return std::nullopt;
}

void DaemonSource::Cancel() {
  is_cancelled_ = true;
  if (stream_) stream_->Cancel();
}

void DaemonSource::StartOver() {
  stream_.reset();
  stage_ = Stage::kRuns;
  is_lost_ = false;
  has_started_over_ = true;
}

}  // namespace kvd::http
