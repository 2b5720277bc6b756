// The handlers of the verbs that compute. The handlers check all arguments before they submit the
// request to the scheduler.
#include <sys/random.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/requests/decode_request.h"
#include "daemon/requests/generation_request.h"
#include "daemon/requests/grammar_worker.h"
#include "daemon/requests/texts_request.h"
#include "daemon/schedule/defragmentation.h"
#include "daemon/sessions/resumption.h"
#include "daemon/verbs/service.h"
#include "engine/forward/encoder.h"
#include "engine/model/model_config.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

std::uint64_t DrawSeed() {
  std::uint64_t seed = 0;
  while (seed == 0) {
    if (::getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 0x9e3779b97f4a7c15u;
  }
  return seed;
}

// Returns the number of the sequence's last tokens that the penalties and DRY take into account in
// addition to the prompt.
std::uint32_t HistoryCells(const wire::GenerateRequest& generate, std::uint32_t cell_count) {
  const std::int32_t wanted_or_all = HistoryWanted(generate.params.sampling);
  if (wanted_or_all < 0) return cell_count;
  const auto wanted = static_cast<std::size_t>(wanted_or_all);
  if (generate.tokens.size() >= wanted) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(wanted - generate.tokens.size(), cell_count));
}

std::unexpected<Error> TooMuchReceived(std::uint64_t received, std::size_t committed) {
  return Fail(Code::kConflict, "received: ", received, " of the answer, more than the ", committed,
              " committed tokens allow");
}

// Returns the point from which a retried decode resumes; tokens whose rows of logits the client has
// not received are computed again.
Result<DecodeResumption> ResumeDecode(const wire::Submission& submission, wire::LogitsWanted wanted,
                                      const auto& progress, std::size_t tokens) {
  std::size_t kept = progress.done;
  if (wanted == wire::LogitsWanted::kLast && kept == tokens) kept = tokens - 1;
  if (wanted == wire::LogitsWanted::kAll) kept = submission.received;
  if (progress.done > tokens || kept > progress.done ||
      (kept == tokens && wanted != wire::LogitsWanted::kNone)) {
    return TooMuchReceived(submission.received, progress.done);
  }
  return DecodeResumption{
      .done = kept, .lost = progress.done - kept, .first_cell = progress.first_cell};
}

// Sets the adaptation after the `predicted` tokens that an earlier attempt has committed, from the
// record of its last commit. `cells`: the cells up to the last token that is still there; the
// attempt may have removed tokens to compute them again.
void SetAdaptation(const layout::SamplerRecord& record, std::uint64_t cells, std::size_t predicted,
                   GenerationState* state) {
  const SamplerProgress recorded = ProgressOf(record);
  if (!ValidateAdaptation(recorded.adaptation) || !ValidateAdaptation(recorded.adaptation_before)) {
    return;
  }
  const std::uint64_t removed = record.cell_count > cells ? record.cell_count - cells : 0;
  if (!state->progress) state->progress.emplace();
  state->progress->adaptation = removed > 0 ? recorded.adaptation_before : recorded.adaptation;
  state->progress->adaptation_before = recorded.adaptation_before;
  if ((record.flags & layout::kSamplerLlamaDraws) == 0 || !ValidateLlamaDraws(recorded)) return;
  // The record has the draws of the last removed token; the others count as one draw each. The
  // request counts one draw for each predicted token when it reads the token again, so the count
  // begins that much lower, also below 0 (modulo 2^64).
  state->progress->draw_count = recorded.draw_count - predicted;
  state->progress->xtc_draw_count = recorded.xtc_draw_count;
  state->progress->draw_last = recorded.draw_last;
  state->progress->xtc_draw_last = recorded.xtc_draw_last;
  if (removed == 0) return;
  state->progress->draw_count -= recorded.draw_last + (removed - 1);
  state->progress->xtc_draw_count -= recorded.xtc_draw_last;
  state->progress->draw_last = 1;
  state->progress->xtc_draw_last = 0;
}

// Returns whether the draw of a token changes the sampler by more than one draw, so that a token
// that is not committed yet needs its row again.
bool NeedsLastRow(const wire::GenerateRequest& generate) {
  const SamplingParams& sampling = generate.params.sampling;
  if (Adapts(sampling)) return true;
  if ((generate.params.flags & wire::kLlamaDraws) == 0) return false;
  return generate.params.grammar_bytes != 0 || sampling.mirostat != 0 ||
         (Applies(sampling, SamplerKind::kXtc) && sampling.xtc_probability > 0) ||
         Applies(sampling, SamplerKind::kAdaptiveP);
}

// Returns the point from which a retried generation resumes, or nullopt if the generation starts
// from its beginning.
Result<std::optional<GenerationResumption>> ResumeGeneration(const wire::Submission& submission,
                                                             const auto& progress,
                                                             const wire::GenerateRequest& generate,
                                                             std::uint32_t vocab_size) {
  const std::size_t received = submission.received;
  if (progress.done == 0 && received == 0) return std::nullopt;
  const std::size_t committed = progress.predicted.size();
  const std::size_t prompt = generate.tokens.size();
  GenerationResumption resumption{.prompt_done = std::min(progress.done, prompt),
                                  .drawn = progress.predicted,
                                  .streamed = received};
  if (received > committed + 1 || (received > 0 && progress.done < prompt)) {
    return TooMuchReceived(received, progress.done);
  }
  if (received == committed + 1) {
    // The client has received one token more than were committed: that token was streamed but not
    // computed.
    if (static_cast<std::uint32_t>(submission.last_token) >= vocab_size) {
      return Fail(Code::kInvalidArgument, "last_token: ", submission.last_token, " is not a token");
    }
    resumption.drawn.push_back(submission.last_token);
    resumption.is_last_drawn = true;
  } else if (progress.done >= prompt) {
    resumption.take_back = 1;
    if (generate.params.logprob_count > 0) {
      // The log-probabilities of the tokens that the client lacks are not kept, so these tokens are
      // removed and computed again.
      resumption.take_back += committed - received;
      resumption.drawn.resize(received);
      if (resumption.take_back > progress.done) {
        return Fail(
            Code::kConflict,
            "logprob_count: the first token's logits, from before this request, are not kept");
      }
    }
  }
  return resumption;
}

}  // namespace

Status Service::CheckTokenCount(std::uint64_t tokens) const {
  const std::uint64_t pool_cells =
      std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells;
  if (tokens > pool_cells) {
    return Fail(Code::kNoSpace, wire::kNoRoomPrefix, tokens, " tokens: the pool has ", pool_cells,
                " cells (--cells)");
  }
  return {};
}

Result<Pos> Service::CheckNextPos(const SequenceInfo& info, std::int64_t pos,
                                  std::size_t tokens) const {
  if (pos != info.next_pos.value) {
    return Fail(Code::kInvalidArgument, "pos: ", pos, " is not the next position of sequence ",
                static_cast<std::uint64_t>(info.handle), ", ", info.next_pos.value);
  }
  if (tokens > static_cast<std::size_t>(kPosEnd.value - info.next_pos.value)) {
    return Fail(Code::kInvalidArgument, "tokens: ", tokens, " from position ", pos,
                " exceed the last position, ", kPosEnd.value - 1);
  }
  return info.next_pos;
}

Result<Outcome> Service::Do(const Call<wire::DecodeArgs>& call) {
  KVD_CHECK_OK(CheckDecoder(engine_.config()));
  const std::uint32_t vocab_size = engine_.config().vocab_size;
  const wire::LogitsWanted logits = call.args.logits;
  const std::size_t row_bytes = std::size_t{vocab_size} * sizeof(float);
  if (logits != wire::LogitsWanted::kNone && row_bytes > call.session->output_bytes_max()) {
    return Fail(Code::kTooLarge, "result arena: a row of logits has ", row_bytes,
                " bytes, the arena has ", call.session->output_bytes_max());
  }
  KVD_TRY(std::vector<TokenId> tokens, wire::ParseTokens(call.payload, vocab_size));
  SequenceInfo info = call.sequence;
  KVD_TRY(const Progress progress, ProgressOf(call, info, tokens));
  KVD_CHECK_OK(TakeGiven(false, &info));
  KVD_TRY(const auto resumption, ResumeDecode(call.submission, logits, progress, tokens.size()));
  const auto done = static_cast<std::int64_t>(progress.done);
  KVD_TRY(const Pos next, CheckNextPos(info, call.args.pos.value + done, tokens.size()));
  const Pos pos{static_cast<std::int32_t>(next.value - done)};
  KVD_CHECK_OK(CheckTokenCount(tokens.size()));
  auto decode = std::make_unique<DecodeRequest>(call.origin(), info.handle, pos, std::move(tokens),
                                                logits, vocab_size, resumption);
  decode->opening() = OpeningFor(call, info, logits == wire::LogitsWanted::kAll);
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, info));
  decode->SetAcquired(std::move(acquired));
  KVD_CHECK_OK(scheduler_.Submit(std::move(decode)));
  return AnsweredByScheduler{};
}

Result<LastRow> Service::LastRowOf(const VerbRequest& request, const SequenceInfo& info) {
  std::vector<float> kept(engine_.config().vocab_size);
  KVD_TRY(const bool is_kept, memory_.states().ReadLogits(info.handle, kept.data()));
  if (is_kept) return LastRow(std::move(kept));
  const std::string sequence = Concat("sequence ", static_cast<std::uint64_t>(info.handle));
  if (info.cell_count == 0) {
    return Fail(Code::kInvalidArgument, "generate.flags: continue: ", sequence, " is empty");
  }
  if (engine_.state_bytes() != 0) {
    return Fail(Code::kUnsupported, "generate.flags: continue: no logits are kept for ", sequence,
                "; generate from its last token");
  }
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_CHECK_OK(memory_.holds().ReadCells(info.handle, info.cell_count - 1, 1, &tokens, &positions));
  SequenceHandle fork = SequenceHandle::kNone;
  KVD_CHECK_OK(memory_.sequences().Fork(info.handle, OwnerFor(request.caller), {&fork, 1},
                                        info.cell_count - 1, request.part()));
  ScratchSequence scratch(memory_, fork);
  KVD_TRY(const SequenceInfo forked, memory_.sequences().Query(fork));
  // The position of the last cell must directly follow the position of the cell before it, because
  // a step computes a token at the next position.
  if (tokens.size() != 1 || positions[0] != forked.next_pos) {
    return Fail(Code::kUnsupported, "generate.flags: continue: the positions of ", sequence,
                " were changed before its last token");
  }
  return LastRow(std::move(scratch), tokens[0], positions[0]);
}

Status Service::BeginGrammar(const VerbRequest& request, const SequenceInfo& info,
                             wire::GenerateRequest& generate,
                             const std::optional<KeptGrammar>& kept, std::uint32_t first_cell,
                             GenerationState* state) {
  if (kept && kept->hash != generate.grammar_hash) {
    if (kept->hash == 0) {
      return Fail(Code::kInvalidArgument,
                  "generate.grammar: the resumed sampler has drawn without a grammar");
    }
    return Fail(Code::kInvalidArgument, "generate.grammar: ",
                generate.grammar_hash == 0 ? "none, but" : "not the one with which",
                " the resumed sampler has drawn", generate.grammar_hash == 0 ? " with one" : "");
  }
  if (generate.grammar_hash == 0) return {};
  if (surroundings_.grammars == nullptr) {
    return Fail(Code::kUnsupported, "generate.grammar: this daemon has no grammars");
  }
  if (engine_.vocabulary().kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, "grammar: ", engine_.vocabulary().no_tokenizer_reason());
  }
  GrammarWanted wanted{.owner = request.caller.owner,
                       .account = request.session->account(),
                       .text = std::move(generate.grammar),
                       .hash = generate.grammar_hash,
                       .triggers = {},
                       .past = {}};
  for (wire::GenerateRequest::Trigger& trigger : generate.triggers) {
    wanted.triggers.push_back({.token = trigger.token, .text = std::move(trigger.text)});
  }
  const auto prompt = static_cast<std::uint32_t>(generate.tokens.size());
  std::uint32_t begin = first_cell + prompt;
  if (kept) {
    begin = std::min(kept->begin, first_cell);
    KVD_TRY(wanted.past, TokensOf(info, begin, first_cell));
    wanted.past.insert(wanted.past.end(), generate.tokens.begin(), generate.tokens.end());
  }
  state->kept_grammar = {.hash = generate.grammar_hash, .begin = begin};
  state->grammars = surroundings_.grammars;
  state->grammar_job = surroundings_.grammars->Begin(std::move(wanted));
  return {};
}

// Tokens that have given their cells back belong to the request that has drawn them. They are lost
// if another request follows instead of a retry of it.
Result<std::vector<TokenId>> Service::TakeGiven(bool is_retry, SequenceInfo* info) {
  if (info->given_count == 0) return std::vector<TokenId>{};
  if (is_retry) return memory_.sequences().GivenTokens(info->handle);
  KVD_CHECK_OK(scheduler_.CheckIdle(info->handle));
  KVD_CHECK_OK(memory_.sequences().ForgetGiven(info->handle));
  KVD_TRY(*info, memory_.sequences().Query(info->handle));
  return std::vector<TokenId>{};
}

Result<Outcome> Service::Do(const Call<wire::GenerateArgs>& call) {
  KVD_CHECK_OK(CheckDecoder(engine_.config()));
  const std::uint32_t vocab_size = engine_.config().vocab_size;
  KVD_TRY(wire::GenerateRequest generate, wire::ParseGenerate(call.payload, vocab_size));
  SequenceInfo info = call.sequence;
  KVD_TRY(const Progress progress, ProgressOf(call, info, generate.tokens));
  KVD_TRY(auto resumption, ResumeGeneration(call.submission, progress, generate, vocab_size));
  KVD_TRY(std::vector<TokenId> given, TakeGiven(progress.is_known, &info));
  const bool has_given = !given.empty();
  const auto done = static_cast<std::int64_t>(progress.done);
  SequenceInfo whole = info;
  whole.next_pos.value += static_cast<std::int32_t>(given.size());
  const std::int64_t wanted_pos =
      call.args.pos ? call.args.pos->value + done : whole.next_pos.value;
  KVD_TRY(const Pos pos, CheckNextPos(whole, wanted_pos, generate.tokens.size()));
  KVD_CHECK_OK(CheckTokenCount(generate.tokens.size()));
  std::size_t left_out = 0;
  if (has_given && resumption) {
    const bool needs_row = resumption->is_last_drawn && NeedsLastRow(generate);
    const std::size_t again = std::max<std::size_t>(resumption->take_back, needs_row ? 1 : 0);
    if (again > given.size()) {  // tokens that have cells are computed again too
      KVD_CHECK_OK(memory_.sequences().ForgetGiven(info.handle));
      resumption->take_back = again - given.size();
    } else if (again > 0) {
      resumption->take_back = 0;
      resumption->lacks_last = true;
    }
    left_out = std::min(again, given.size());
  }
  // Drops the scratch sequence of an earlier attempt with kContinue.
  if (call.is_again()) DropPartsOf(call);
  GenerationState state;
  state.keeps_logits = engine_.state_bytes() != 0;
  state.samplers = &samplers_;
  state.breaker_cache = &breaker_cache_;
  const std::uint64_t own_first = progress.first_cell + generate.tokens.size();
  const bool has_drawn = progress.is_known && info.sampler.cell_count > own_first;
  std::optional<KeptGrammar> kept_grammar;
  if ((generate.params.flags & wire::kResumeSampler) != 0) {
    const Result<KeptSampler> kept = samplers_.Find(info.handle);
    if (!kept) {
      return Fail(kept.error().code, "generate.flags: resume: ", kept.error().message);
    }
    TakeSampler(kept->options, &generate);
    kept_grammar = kept->grammar;
    // The request repeats all draws of its own earlier attempt, also draws whose tokens were
    // removed later, so draw_count must not include the draws of that attempt.
    const std::uint64_t own =
        has_drawn ? std::min(info.sampler.cell_count - own_first, kept->progress.draw_count) : 0;
    state.progress = kept->progress;
    state.progress->draw_count -= own;
  }
  if (has_drawn) {
    const std::size_t predicted = progress.predicted.size();
    SetAdaptation(info.sampler, own_first + predicted, predicted, &state);
  }
  if (resumption && !resumption->lacks_last &&
      (resumption->take_back == 1 || (resumption->is_last_drawn && NeedsLastRow(generate)))) {
    // The row after the last committed token was lost; it is computed on a fork, so that the
    // sequence and the record of its sampler stay whole, however many attempts follow. If that is
    // impossible, because of a recurrent state or for lack of room, the last committed token is
    // removed and computed again. Where that is impossible too, the sampler does not adapt to a
    // token that was drawn but not committed.
    Result<LastRow> last_row = LastRowOf(call, info);
    if (last_row) {
      state.last_row = std::move(*last_row);
      resumption->take_back = 0;
    } else if (engine_.state_bytes() != 0 && progress.done > 0) {
      resumption->take_back = 1;
    }
  }
  if (PenalisesRepetitions(generate.params.sampling)) {
    const bool has_own = (generate.params.flags & wire::kOwnBreakers) != 0;
    state.breakers = breaker_cache_.Find(has_own ? generate.breakers : DefaultBreakers());
  }
  if ((generate.params.flags & wire::kContinue) != 0 && !resumption) {
    KVD_TRY(state.last_row, LastRowOf(call, info));
  }
  if (generate.params.seed == 0) {
    const auto& stored = call.session->identity().stored;
    generate.params.seed = stored ? SeedOf(SessionSeed(*stored), call.id()) : DrawSeed();
  }
  const std::uint32_t history_cells = HistoryCells(generate, progress.first_cell);
  KVD_TRY(const std::vector<TokenId> history,
          TokensOf(info, progress.first_cell - history_cells, progress.first_cell));
  KVD_CHECK_OK(BeginGrammar(call, info, generate, kept_grammar,
                            static_cast<std::uint32_t>(progress.first_cell), &state));
  KVD_TRY(auto generation,
          GenerationRequest::Create(call.origin(), info.handle, pos, progress.first_cell,
                                    std::move(generate), history, engine_.vocabulary(), vocab_size,
                                    std::move(state), std::move(resumption)));
  generation->opening() = OpeningFor(call, info, false);
  generation->LeaveOutGiven(left_out);
  if (has_given) generation->OnGivenBack(std::move(given), info.next_pos);
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, info));
  generation->SetAcquired(std::move(acquired));
  KVD_CHECK_OK(scheduler_.Submit(std::move(generation)));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::Do(const Call<wire::DivideArgs>& call) {
  const SequenceInfo& info = call.sequence;
  auto divide = std::make_unique<DivideRequest>(call.origin(), info.handle, call.args.range,
                                                call.args.divisor, info.cell_count);
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, info));
  divide->SetAcquired(std::move(acquired));
  KVD_CHECK_OK(scheduler_.Submit(std::move(divide)));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::Do(const Call<wire::DefragArgs>& call) {
  KVD_CHECK_OK(scheduler_.Submit(std::make_unique<DefragmentRequest>(call.origin())));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::Do(const Call<wire::EmbedArgs>& call) {
  const ModelConfig& config = engine_.config();
  std::optional<Pooling> wanted;
  if (call.args.pooling) wanted = static_cast<Pooling>(*call.args.pooling);
  KVD_TRY(const Pooling pooling, PoolingFor(config, wanted));
  KVD_TRY(wire::TokenLists texts, wire::ParseTokenLists(call.payload, config.vocab_size));
  std::size_t rows = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Status checked = CheckEmbed(config, texts[i], pooling);
    if (!checked) return Fail(checked.error().code, "text ", i, ": ", checked.error().message);
    rows += pooling == Pooling::kNone ? texts[i].size() : 1;
  }
  const std::size_t bytes = rows * EmbeddingWidth(config, pooling) * sizeof(float);
  if (bytes > call.session->output_bytes_max()) {
    return Fail(Code::kTooLarge, "result arena: the rows have ", bytes, " bytes, the arena has ",
                call.session->output_bytes_max());
  }
  RequestOrigin origin = call.origin();
  KVD_CHECK_OK(scheduler_.Submit(std::make_unique<EmbedRequest>(
      std::move(origin), std::move(texts), pooling, call.has(wire::kFlagNormalize))));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::Do(const Call<wire::RankArgs>& call) {
  KVD_TRY([[maybe_unused]] const Pooling pooling, PoolingFor(engine_.config(), Pooling::kRank));
  if (engine_.vocabulary().kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, std::string(engine_.vocabulary().no_tokenizer_reason()));
  }
  std::vector<std::byte> payload = call.TakePayload();
  KVD_TRY(std::vector<std::string_view> texts, wire::SplitTexts(payload));
  RequestOrigin origin = call.origin();
  KVD_CHECK_OK(scheduler_.Submit(
      std::make_unique<RankRequest>(std::move(origin), std::move(payload), std::move(texts))));
  return AnsweredByScheduler{};
}

Result<Outcome> Service::Do(const Call<wire::EncodeArgs>& call) {
  const ModelConfig& config = engine_.config();
  KVD_TRY(std::vector<TokenId> tokens, wire::ParseTokens(call.payload, config.vocab_size));
  KVD_CHECK_OK(CheckEncode(config, tokens));
  const SequenceInfo& info = call.sequence;
  KVD_CHECK_OK(CheckTokenCount(tokens.size()));
  RequestOrigin origin = call.origin();
  auto encode = std::make_unique<EncodeRequest>(std::move(origin), info.handle, std::move(tokens),
                                                config.decoder_start_token);
  KVD_TRY(AcquiredSequence acquired, AcquireForWrite(call, info));
  encode->SetAcquired(std::move(acquired));
  KVD_CHECK_OK(scheduler_.Submit(std::move(encode)));
  return AnsweredByScheduler{};
}

Result<wire::CancelReply> Service::Do(const Call<wire::CancelArgs>& call) {
  return wire::CancelReply{.was_found = scheduler_.Cancel(call.caller.session, call.args.request)};
}

}  // namespace kvd
