// The functions of kvd.h that decode, generate, wait for requests and cancel them.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"
#include "text/schema/schema_grammar.h"

namespace kvd {
namespace {

static_assert(sizeof(kvd_logit_bias) == sizeof(wire::LogitBias));
static_assert(sizeof(kvd_token_logprob) == sizeof(wire::TokenLogprob));
static_assert(sizeof(kvd_generate_result) == sizeof(wire::GenerateResult));
static_assert(wire::kShowSpecial == static_cast<std::uint32_t>(KVD_SHOW_SPECIAL));
static_assert(wire::kContinue == static_cast<std::uint32_t>(KVD_CONTINUE));
static_assert(wire::kResumeSampler == static_cast<std::uint32_t>(KVD_RESUME_SAMPLER));
static_assert(wire::kLlamaDraws == static_cast<std::uint32_t>(KVD_LLAMA_DRAWS));
static_assert(wire::kSkipLast == static_cast<std::uint32_t>(KVD_SKIP_LAST));
static_assert(wire::kTellParking == static_cast<std::uint32_t>(KVD_TELL_PARKING));
static_assert(wire::kPieceParking == static_cast<std::uint32_t>(KVD_PIECE_PARKING));
static_assert(wire::kPieceTokens == static_cast<std::uint32_t>(KVD_PIECE_TOKENS));

// The fields of kvd_generate_params from temperature to repeat_last, and from top_n_sigma to
// adaptive_decay, have the layout of the same fields of a SamplingParams.
struct FieldRange {
  std::size_t theirs;  // offset in kvd_generate_params
  std::size_t ours;    // offset in SamplingParams
  std::size_t bytes;
};
constexpr FieldRange kFieldRanges[] = {
    {offsetof(kvd_generate_params, temperature), 0, offsetof(SamplingParams, top_n_sigma)},
    {offsetof(kvd_generate_params, top_n_sigma), offsetof(SamplingParams, top_n_sigma),
     offsetof(SamplingParams, chain) - offsetof(SamplingParams, top_n_sigma)}};
constexpr bool IsLast(const FieldRange& range, std::size_t theirs, std::size_t ours) {
  return theirs - range.theirs == ours - range.ours && ours + 4 == range.ours + range.bytes;
}
static_assert(offsetof(kvd_generate_params, top_k) - kFieldRanges[0].theirs ==
                  offsetof(SamplingParams, top_k) &&
              IsLast(kFieldRanges[0], offsetof(kvd_generate_params, repeat_last),
                     offsetof(SamplingParams, repeat_last)) &&
              IsLast(kFieldRanges[1], offsetof(kvd_generate_params, adaptive_decay),
                     offsetof(SamplingParams, adaptive_decay)));

Result<SamplingParams> SamplingOf(const kvd_generate_params& params) {
  SamplingParams sampling = kDefaultSampling;
  for (const FieldRange& range : kFieldRanges) {
    std::memcpy(reinterpret_cast<std::byte*>(&sampling) + range.ours,
                reinterpret_cast<const std::byte*>(&params) + range.theirs, range.bytes);
  }
  if (params.samplers != nullptr) {
    KVD_TRY(sampling.chain, ParseSamplerNames(params.samplers));
  }
  return sampling;
}
void SetSampling(const SamplingParams& sampling, kvd_generate_params* params) {
  for (const FieldRange& range : kFieldRanges) {
    std::memcpy(reinterpret_cast<std::byte*>(params) + range.theirs,
                reinterpret_cast<const std::byte*>(&sampling) + range.ours, range.bytes);
  }
}

std::chrono::milliseconds TimeoutFrom(std::int32_t timeout_ms) {
  return std::chrono::milliseconds(timeout_ms);
}

// The texts of a request as views of the caller's memory.
struct GenerateTexts {
  std::vector<std::string_view> stops;
  std::vector<std::string_view> breakers;
  std::vector<wire::TriggerView> triggers;
  std::string schema_grammar;  // the grammar of params.json_schema
};

Status TakeGrammar(const kvd_generate_params& params, GenerateTexts& texts,
                   GenerateOptions& options) {
  if (params.grammar != nullptr && params.json_schema != nullptr) {
    return Fail(Code::kInvalidArgument, "params: a grammar and a json_schema, at most one");
  }
  if (params.grammar != nullptr) {
    options.grammar = params.grammar;
    if (options.grammar.empty()) return Fail(Code::kInvalidArgument, "params.grammar: empty");
  }
  if (params.json_schema != nullptr) {
    auto grammar = SchemaGrammar(params.json_schema);
    if (!grammar) return FailWithin("params.json_schema", grammar.error());
    texts.schema_grammar = std::move(*grammar);
    options.grammar = texts.schema_grammar;
  }
  const std::size_t count = params.grammar_trigger_count;
  if (count == 0) return {};
  KVD_CHECK_OK(NotNull(params.grammar_triggers, "params.grammar_triggers"));
  if (count > wire::kTriggersMax || options.grammar.empty()) {
    return Fail(Code::kInvalidArgument, "params.grammar_trigger_count: ", count, ", at most ",
                options.grammar.empty() ? 0 : wire::kTriggersMax);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const kvd_grammar_trigger& trigger = params.grammar_triggers[i];
    wire::TriggerView view{.token = trigger.token, .text = {}};
    if (trigger.text != nullptr) view = {.token = kNoToken, .text = trigger.text};
    texts.triggers.push_back(view);
  }
  options.triggers = texts.triggers;
  return {};
}

Status TakeTexts(const char* const* theirs, std::size_t count, const char* field,
                 std::vector<std::string_view>& ours) {
  for (std::size_t i = 0; i < count; ++i) {
    KVD_CHECK_OK(NotNull(theirs[i], field));
    ours.emplace_back(theirs[i]);
  }
  return {};
}

// Converts the caller's parameters to GenerateOptions, whose views refer to the caller's memory and
// to `texts`.
Result<GenerateOptions> OptionsFrom(const kvd_generate_params* theirs, GenerateTexts& texts) {
  KVD_CHECK_OK(NotNull(theirs, "params"));
  kvd_generate_params ours;
  kvd_generate_params_init(&ours, sizeof ours);
  KVD_CHECK_OK(ReadSized(*theirs, ours));
  if (ours.top_p == 0 && ours.typical_p == 0 && ours.repeat_penalty == 0) {
    return Fail(Code::kInvalidArgument,
                "params: kvd_generate_params_init has not filled it: top_p, typical_p and "
                "repeat_penalty are 0");
  }
  if ((ours.flags & KVD_CONTINUE) == 0) KVD_CHECK_OK(NotNull(ours.tokens, "params.tokens"));
  if (ours.bias_count != 0) KVD_CHECK_OK(NotNull(ours.biases, "params.biases"));
  if (ours.stop_count != 0) KVD_CHECK_OK(NotNull(ours.stops, "params.stops"));
  if (ours.dry_breaker_count != 0) KVD_CHECK_OK(NotNull(ours.dry_breakers, "params.dry_breakers"));
  if (ours.stop_count > wire::kStopsMax || ours.bias_count > wire::kBiasesMax) {
    return Fail(Code::kInvalidArgument, "params: ", ours.stop_count, " stops, at most 16, and ",
                ours.bias_count, " biases, at most 1024");
  }
  if (ours.dry_breaker_count > wire::kBreakersMax) {
    return Fail(Code::kInvalidArgument, "params.dry_breaker_count: ", ours.dry_breaker_count,
                ", at most ", wire::kBreakersMax);
  }
  KVD_CHECK_OK(TakeTexts(ours.stops, ours.stop_count, "params.stops", texts.stops));
  KVD_CHECK_OK(
      TakeTexts(ours.dry_breakers, ours.dry_breaker_count, "params.dry_breakers", texts.breakers));
  GenerateOptions options;
  options.tokens = {ours.tokens, ours.token_count};
  if (ours.pos >= 0) options.pos = Pos{ours.pos};
  options.predict_max = ours.predict_max;
  KVD_TRY(options.sampling, SamplingOf(ours));
  options.logprob_count = ours.logprob_count;
  options.seed = ours.seed;
  options.flags = ours.flags;
  options.wants_progress = ours.wants_progress != 0;
  options.room_wait_ms = ours.room_wait_ms;
  options.biases = {reinterpret_cast<const wire::LogitBias*>(ours.biases), ours.bias_count};
  options.stops = texts.stops;
  if (ours.dry_breakers != nullptr) options.breakers = texts.breakers;
  KVD_CHECK_OK(TakeGrammar(ours, texts, options));
  options.shares_prefix = ours.no_prefix == 0;
  return options;
}

kvd_piece PieceFrom(const wire::PieceView& view, RequestId request) {
  kvd_piece piece{};
  piece.kind = view.kind;
  piece.token_count = static_cast<std::uint32_t>(view.tokens.size());
  piece.tokens = view.tokens.data();
  piece.text = view.text.data();
  piece.text_bytes = view.text.size();
  piece.logprobs = reinterpret_cast<const kvd_token_logprob*>(view.logprobs.data());
  piece.logprob_count = view.logprobs.size();
  piece.done = view.done;
  piece.total = view.total;
  piece.request = static_cast<kvd_request>(request);
  return piece;
}

void Give(const wire::GenerateResult& result, kvd_generate_result* out) {
  if (out == nullptr) return;
  *out = {result.seed,          result.finish,      result.prompt_reused, result.prompt_computed,
          result.predicted,     result.prompt_ns,   result.predict_ns,    result.prompt_shared,
          result.shared_origin, result.share_limit, result.skipped,       result.is_full};
}

Result<Decoding> StartDecode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
                             std::size_t token_count, std::int32_t pos, int wanted) {
  KVD_CHECK_OK(NotNull(client, "client"));
  KVD_CHECK_OK(NotNull(tokens, "tokens"));
  if (wanted < KVD_LOGITS_NONE || wanted > KVD_LOGITS_ALL) {
    return Fail(Code::kInvalidArgument, "wanted: ", wanted, ", must be 0 to 2");
  }
  const SequenceHandle handle = HandleFrom(sequence);
  Pos first{pos};
  if (pos == -1) {
    KVD_TRY(const wire::SequenceEntry entry, client->client.Query(handle));
    first = Pos{entry.next_pos};
  }
  return client->client.StartDecode(handle, {tokens, token_count}, first,
                                    static_cast<wire::LogitsWanted>(wanted));
}

void Give(Logits logits, kvd_request request, kvd_logits* out) {
  *out = {};
  out->rows = logits.values().empty() ? nullptr : logits.values().data();
  out->row_count = static_cast<std::uint32_t>(logits.row_count());
  out->row_floats = static_cast<std::uint32_t>(logits.row_count() == 0 ? 0 : logits.row(0).size());
  out->row_first = logits.row_first();
  out->cell_count = logits.cell_count();
  out->has_more = logits.has_more() ? 1 : 0;
  out->request = request;
  out->ticket = logits.TakeTicket();
  out->prompt_shared = logits.reuse().tokens;
  out->shared_origin = static_cast<std::uint16_t>(logits.reuse().origin);
  out->share_limit = static_cast<std::uint16_t>(logits.reuse().limit);
}

std::shared_ptr<Generation> TakeGeneration(kvd_client* client, kvd_request request, bool keep) {
  const MutexLock lock(client->requests_mutex);
  const auto found = client->generations.find(request);
  if (found == client->generations.end()) return nullptr;
  auto generation = found->second;
  if (!keep) client->generations.erase(found);
  return generation;
}

kvd_request Keep(kvd_client* client, Generation generation) {
  const auto id = static_cast<kvd_request>(generation.request());
  const MutexLock lock(client->requests_mutex);
  client->generations.emplace(id, std::make_shared<Generation>(std::move(generation)));
  return id;
}

// Passes the pieces of a generation to the caller's function until the generation ends, and cancels
// it if the function returns another number than 0.
Status TakePieces(Generation& generation, kvd_piece_function on_piece, void* user) {
  bool is_cancelled = false;
  for (;;) {
    KVD_TRY(const auto view, generation.Next());
    if (!view) return {};
    if (on_piece == nullptr || is_cancelled) continue;
    const kvd_piece piece = PieceFrom(*view, generation.request());
    if (on_piece(user, &piece) != 0) {
      generation.Cancel();
      is_cancelled = true;
    }
  }
}

// Appends a text to the sequence and generates as `params` say, except for their tokens.
Status GenerateText(kvd_client* client, kvd_sequence sequence, const char* text,
                    std::uint32_t flags, kvd_generate_params params, kvd_piece_function on_piece,
                    void* user, kvd_generate_result* result) {
  KVD_CHECK_OK(NotNull(client, "client"));
  KVD_CHECK_OK(NotNull(text, "text"));
  KVD_TRY(const std::uint16_t known, FlagsFrom(flags, KVD_ADD_SPECIAL | KVD_PARSE_SPECIAL));
  KVD_TRY(const std::vector<TokenId> tokens, client->client.Tokenize(text, known));
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "text: it has no tokens");
  params.tokens = tokens.data();
  params.token_count = tokens.size();
  GenerateTexts texts;
  KVD_TRY(const GenerateOptions options, OptionsFrom(&params, texts));
  KVD_TRY(Generation generation, client->client.StartGenerate(HandleFrom(sequence), options));
  KVD_CHECK_OK(TakePieces(generation, on_piece, user));
  Give(generation.result(), result);
  return {};
}

KvdFinisher TakeFinisher(kvd_client* client, kvd_request request) {
  const MutexLock lock(client->requests_mutex);
  auto found = client->finishers.extract(request);
  return found.empty() ? nullptr : std::move(found.mapped());
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_cancel(kvd_client* client, kvd_request target, int* was_found, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    return Ask(client, later, wire::CancelArgs{static_cast<RequestId>(target)}, {}, 0,
               [=](const wire::CancelReply& reply) -> Status {
                 if (was_found != nullptr) *was_found = reply.was_found ? 1 : 0;
                 return {};
               });
  });
}

int kvd_decode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, int32_t pos, int wanted, kvd_logits* logits,
               kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    if (later == nullptr) KVD_CHECK_OK(NotNull(logits, "logits"));
    KVD_TRY(Decoding decoding, StartDecode(client, sequence, tokens, token_count, pos, wanted));
    if (later != nullptr) {
      *later = static_cast<kvd_request>(decoding.Detach());
      return {};
    }
    const RequestId request = decoding.request();
    KVD_TRY(Logits piece, decoding.Next());
    if (piece.has_more()) (void)decoding.Detach();
    Give(std::move(piece), static_cast<kvd_request>(request), logits);
    return {};
  });
}

int kvd_release(kvd_client* client, kvd_logits* logits) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(logits, "logits"));
    const std::uint64_t ticket = std::exchange(logits->ticket, 0);
    const bool has_rows = std::exchange(logits->rows, nullptr) != nullptr;
    logits->row_count = 0;
    if (ticket == 0 && !has_rows) return {};
    if (client->client.connection()->Release(ticket)) return {};
    return Fail(Code::kNotFound, "logits: already released, or not of this process");
  });
}

int kvd_decode_next(kvd_client* client, kvd_request request, int32_t timeout_ms,
                    kvd_logits* logits) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(logits, "logits"));
    KVD_TRY(Logits piece,
            Decoding::NextOf(client->client.connection(), static_cast<RequestId>(request),
                             TimeoutFrom(timeout_ms)));
    Give(std::move(piece), request, logits);
    return {};
  });
}

void kvd_generate_params_init(kvd_generate_params* params, size_t size) {
  const GenerateOptions defaults;
  kvd_generate_params ours{};
  ours.size = size;
  ours.pos = -1;
  ours.predict_max = defaults.predict_max;
  SetSampling(defaults.sampling, &ours);
  std::memset(params, 0, size);
  std::memcpy(params, &ours, std::min(size, sizeof ours));
}

int kvd_generate(kvd_client* client, kvd_sequence sequence, const kvd_generate_params* params,
                 kvd_piece_function on_piece, void* user, kvd_generate_result* result,
                 kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    if (later != nullptr && (on_piece != nullptr || result != nullptr)) {
      return Fail(Code::kInvalidArgument, on_piece != nullptr ? "on_piece" : "result",
                  ": must be null with later, see kvd_generate_next");
    }
    GenerateTexts texts;
    KVD_TRY(const GenerateOptions options, OptionsFrom(params, texts));
    KVD_TRY(Generation generation, client->client.StartGenerate(HandleFrom(sequence), options));
    if (later != nullptr) {
      *later = Keep(client, std::move(generation));
      return {};
    }
    KVD_CHECK_OK(TakePieces(generation, on_piece, user));
    Give(generation.result(), result);
    return {};
  });
}

int kvd_prompt(kvd_client* client, kvd_sequence sequence, const char* text, uint32_t flags,
               kvd_generate_result* result) {
  return CallBody([&]() -> Status {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.predict_max = 0;
    return GenerateText(client, sequence, text, flags, params, nullptr, nullptr, result);
  });
}

int kvd_generate_text(kvd_client* client, kvd_sequence sequence, const char* text, uint32_t flags,
                      const kvd_generate_params* params, kvd_piece_function on_piece, void* user,
                      kvd_generate_result* result) {
  return CallBody([&]() -> Status {
    kvd_generate_params ours;
    kvd_generate_params_init(&ours, sizeof ours);
    if (params != nullptr) {
      KVD_CHECK_OK(ReadSized(*params, ours));
      ours.size = sizeof ours;
    }
    return GenerateText(client, sequence, text, flags, ours, on_piece, user, result);
  });
}

int kvd_generate_resume(kvd_client* client, kvd_request request, kvd_sequence sequence,
                        const kvd_generate_params* params, uint32_t received, kvd_token last) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    GenerateTexts texts;
    KVD_TRY(const GenerateOptions options, OptionsFrom(params, texts));
    KVD_TRY(Generation generation,
            client->client.ResumeGenerate(static_cast<RequestId>(request), HandleFrom(sequence),
                                          options, received, last));
    (void)Keep(client, std::move(generation));
    return {};
  });
}

int kvd_generate_next(kvd_client* client, kvd_request request, int32_t timeout_ms, kvd_piece* piece,
                      kvd_generate_result* result) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(piece, "piece"));
    const auto generation = TakeGeneration(client, request, true);
    if (!generation) {
      return Fail(Code::kNotFound, "request ", request, ": no generation in flight");
    }
    auto view = generation->Next(TimeoutFrom(timeout_ms));
    if (view && *view) {
      *piece = PieceFrom(**view, generation->request());
      return {};
    }
    if (!view && view.error().code == Code::kTimeout) return std::unexpected(view.error());
    (void)TakeGeneration(client, request, false);
    if (!view) return std::unexpected(std::move(view).error());
    *piece = {};
    piece->kind = KVD_PIECE_END;
    piece->request = request;
    Give(generation->result(), result);
    return {};
  });
}

int kvd_wait_any(kvd_client* client, const kvd_request* requests, size_t count, int32_t timeout_ms,
                 size_t* index) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    if (count > 0) KVD_CHECK_OK(NotNull(requests, "requests"));
    KVD_CHECK_OK(NotNull(index, "index"));
    std::vector<RequestId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<RequestId>(requests[i]));
    KVD_TRY(const std::size_t found,
            client->client.connection()->WaitAny(ids, TimeoutFrom(timeout_ms)));
    *index = found;
    return {};
  });
}

int kvd_event_fd(kvd_client* client, int* descriptor) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(descriptor, "descriptor"));
    KVD_TRY(*descriptor, client->client.connection()->OpenEventDescriptor());
    return {};
  });
}

int kvd_finish(kvd_client* client, kvd_request request, int32_t timeout_ms) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    const auto id = static_cast<RequestId>(request);
    std::vector<std::byte> output;
    const auto completion =
        client->client.connection()->Finish(id, TimeoutFrom(timeout_ms), &output);
    if (!completion && completion.error().code == Code::kTimeout) {
      return std::unexpected(completion.error());
    }
    const KvdFinisher finish = TakeFinisher(client, request);
    if (!completion) return std::unexpected(completion.error());
    if (!finish) {
      return Fail(Code::kNotFound, "request ", request, ": not in flight");
    }
    return finish(*completion, output);
  });
}

void kvd_abandon(kvd_client* client, kvd_request request) {
  if (client == nullptr) return;
  const auto generation = TakeGeneration(client, request, false);
  (void)TakeFinisher(client, request);
  client->client.connection()->Abandon(static_cast<RequestId>(request));
}
