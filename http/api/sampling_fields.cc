// Ranges: server-schema.cpp of llama-server. What llama-server accepts and kvd's sampler refuses
// (ValidateSampling) is refused by the sampler's own message, which names the field.
#include "http/api/sampling_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "shm/wire_generate.h"
#include "text/schema/schema_grammar.h"

namespace kvd::http {
namespace {

constexpr std::int64_t kIntMax = std::numeric_limits<std::int32_t>::max();
// Of probabilities that must be above 0: keeps one token, as 0 does in llama.cpp.
constexpr float kSmallestShare = 1e-6f;

Status ReadNumber(const Fields& fields, std::string_view name, float least, float most,
                  float& number) {
  KVD_TRY(const double found, fields.Number(name, static_cast<double>(number)));
  if (fields.Has(name)) {
    number = static_cast<float>(
        std::clamp(found, static_cast<double>(least), static_cast<double>(most)));
  }
  return {};
}

Status ReadNumber(const Fields& fields, std::string_view name, float& number) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return ReadNumber(fields, name, -kMost, kMost, number);
}

Status ReadInt(const Fields& fields, std::string_view name, std::int64_t least, std::int64_t most,
               std::int32_t& number) {
  KVD_TRY(const std::int64_t found, fields.Int(name, number, least, most));
  number = static_cast<std::int32_t>(found);
  return {};
}

// A number that llama-server moves into its range.
Status ReadMovedInt(const Fields& fields, std::string_view name, std::int64_t least,
                    std::int64_t most, std::int32_t& number) {
  KVD_TRY(const auto found, fields.OptionalInt(name, std::numeric_limits<std::int64_t>::min(),
                                               std::numeric_limits<std::int64_t>::max()));
  if (found) number = static_cast<std::int32_t>(std::clamp(*found, least, most));
  return {};
}

Status ReadChain(const Fields& fields, SamplerChain& chain) {
  const Value& samplers = fields.Find("samplers");
  if (samplers.is_missing()) return {};
  Result<SamplerChain> read = SamplerChain{};
  if (samplers.is_string()) {
    read = ParseSamplerLetters(samplers.view());
  } else {
    KVD_TRY(const std::vector<std::string> names, fields.Strings("samplers"));
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : ";") + name;
    read = ParseSamplerNames(joined);
  }
  if (!read) {
    return Fail(Code::kInvalidArgument, fields.PathOf("samplers"), ": ", read.error().message);
  }
  chain = *read;
  return {};
}

Status ReadSampling(const Fields& fields, SamplingParams& sampling) {
  constexpr float kMost = std::numeric_limits<float>::max();
  SamplingParams& s = sampling;
  KVD_CHECK_OK(ReadNumber(fields, "temperature", 0, kMost, s.temperature));
  KVD_CHECK_OK(ReadNumber(fields, "dynatemp_range", 0, kMost, s.dynatemp_range));
  KVD_CHECK_OK(ReadNumber(fields, "dynatemp_exponent", s.dynatemp_exponent));
  KVD_CHECK_OK(ReadMovedInt(fields, "top_k", 0, kIntMax, s.top_k));
  KVD_CHECK_OK(ReadNumber(fields, "top_p", kSmallestShare, 1, s.top_p));
  KVD_CHECK_OK(ReadNumber(fields, "min_p", 0, 1, s.min_p));
  KVD_CHECK_OK(ReadNumber(fields, "typical_p", kSmallestShare, 1, s.typical_p));
  KVD_CHECK_OK(ReadNumber(fields, "top_n_sigma", s.top_n_sigma));
  KVD_CHECK_OK(ReadNumber(fields, "xtc_probability", 0, 1, s.xtc_probability));
  KVD_CHECK_OK(ReadNumber(fields, "xtc_threshold", 0, 1, s.xtc_threshold));
  KVD_CHECK_OK(ReadInt(fields, "repeat_last_n", -1, kIntMax, s.repeat_last));
  KVD_CHECK_OK(ReadNumber(fields, "repeat_penalty", s.repeat_penalty));
  KVD_CHECK_OK(ReadNumber(fields, "presence_penalty", s.presence_penalty));
  KVD_CHECK_OK(ReadNumber(fields, "frequency_penalty", s.frequency_penalty));
  KVD_CHECK_OK(ReadNumber(fields, "dry_multiplier", s.dry_multiplier));
  float base = s.dry_base;
  KVD_CHECK_OK(ReadNumber(fields, "dry_base", base));
  if (base >= 1) s.dry_base = base;
  KVD_CHECK_OK(ReadInt(fields, "dry_allowed_length", 0, kIntMax, s.dry_allowed_length));
  KVD_CHECK_OK(ReadInt(fields, "dry_penalty_last_n", -1, kIntMax, s.dry_penalty_last));
  KVD_CHECK_OK(ReadMovedInt(fields, "mirostat", 0, 2, s.mirostat));
  KVD_CHECK_OK(ReadNumber(fields, "mirostat_tau", s.mirostat_tau));
  KVD_CHECK_OK(ReadNumber(fields, "mirostat_eta", s.mirostat_eta));
  KVD_CHECK_OK(ReadNumber(fields, "adaptive_target", -1, 1, s.adaptive_target));
  KVD_CHECK_OK(ReadNumber(fields, "adaptive_decay", s.adaptive_decay));
  KVD_CHECK_OK(ReadChain(fields, s.chain));
  return ValidateSampling(s);
}

// The first of the names that is there.
std::string_view FirstOf(const Fields& fields, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (fields.Has(name)) return name;
  }
  return *names.begin();
}

Status CheckTexts(const std::string& path, const std::vector<std::string>& texts,
                  std::size_t count_max, std::size_t bytes_max) {
  if (texts.size() > count_max) {
    return Fail(Code::kInvalidArgument, path, ": ", texts.size(), " texts, at most ", count_max);
  }
  for (const std::string& text : texts) {
    if (text.size() <= bytes_max) continue;
    return Fail(Code::kInvalidArgument, path, ": a text of ", text.size(), " bytes, at most ",
                bytes_max);
  }
  return {};
}

Status ReadEnds(const Fields& fields, AnswerRequest& request) {
  const std::string_view predict =
      FirstOf(fields, {"n_predict", "max_completion_tokens", "max_tokens"});
  KVD_CHECK_OK(ReadInt(fields, predict, -1, kIntMax, request.predict_max));
  KVD_CHECK_OK(ReadInt(fields, "n_keep", -1, kIntMax, request.keep));
  KVD_TRY(request.ignores_eos, fields.Bool("ignore_eos", request.ignores_eos));
  if (fields.Has("stop")) {
    KVD_TRY(request.stops, fields.Strings("stop"));
    std::erase(request.stops, std::string());
    KVD_CHECK_OK(
        CheckTexts(fields.PathOf("stop"), request.stops, wire::kStopsMax, wire::kStopBytesMax));
  }
  KVD_TRY(const auto time, fields.OptionalInt("t_max_predict_ms", -1, kIntMax));
  if (time && *time > 0) request.predict_time_max = std::chrono::milliseconds(*time);
  KVD_TRY(const std::int64_t room_wait_ms, fields.Int("room_wait_ms", 0, -1, kIntMax));
  request.room_wait_ms = static_cast<std::int32_t>(room_wait_ms);
  return {};
}

Status ReadBreakers(const Fields& fields, AnswerRequest& request) {
  if (!fields.Has("dry_sequence_breakers")) return {};
  KVD_TRY(std::vector<std::string> breakers, fields.Strings("dry_sequence_breakers"));
  std::erase(breakers, std::string());
  if (breakers.empty()) {
    return Fail(Code::kInvalidArgument, fields.PathOf("dry_sequence_breakers"),
                ": at least one text is needed");
  }
  KVD_CHECK_OK(CheckTexts(fields.PathOf("dry_sequence_breakers"), breakers, wire::kBreakersMax,
                          wire::kBreakerBytesMax));
  request.breakers = std::move(breakers);
  return {};
}

// A number, or false for a token that must not be drawn. Anything else is nullopt.
std::optional<float> BiasOf(const Value& value) {
  if (value.is_bool()) {
    return value.truth() ? std::nullopt : std::optional(-std::numeric_limits<float>::infinity());
  }
  if (!value.is_number() || std::isnan(value.number())) return std::nullopt;
  if (value.number() == -std::numeric_limits<double>::infinity()) {
    return -std::numeric_limits<float>::infinity();
  }
  constexpr double kMost = wire::kBiasMax;
  return static_cast<float>(std::clamp(value.number(), -kMost, kMost));
}

std::optional<TokenId> TokenOf(std::string_view text) {
  TokenId token = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return token;
}

Result<BiasField> BiasPair(const Fields& fields, const Value& pair) {
  if (!pair.is_list() || pair.items().size() != 2) {
    return fields.Wrong("logit_bias", "a list of pairs of a token and a number", pair);
  }
  const Value& what = pair.items()[0];
  const std::optional<float> bias = BiasOf(pair.items()[1]);
  if (!bias) return fields.Wrong("logit_bias", "a number or false", pair.items()[1]);
  if (what.is_string()) return BiasField{std::string(what.view()), *bias};
  if (!what.is_int()) return fields.Wrong("logit_bias", "a token or a text", what);
  const std::int64_t token = std::clamp<std::int64_t>(what.integer(), -1, kIntMax);
  return BiasField{static_cast<TokenId>(token), *bias};
}

Result<std::vector<BiasField>> ReadBiases(const Fields& fields) {
  std::vector<BiasField> biases;
  const Value& value = fields.Find("logit_bias");
  if (value.is_missing()) return biases;
  if (value.is_list()) {
    for (const Value& pair : value.items()) {
      KVD_TRY(BiasField bias, BiasPair(fields, pair));
      biases.push_back(std::move(bias));
    }
  } else if (value.is_dict()) {
    for (const auto& [key, number] : value.dict().items()) {
      const std::optional<float> bias = BiasOf(number);
      if (!bias) return fields.Wrong("logit_bias", "a number or false", number);
      const std::optional<TokenId> token = TokenOf(key.view());
      if (token) {
        biases.push_back({*token, *bias});
      } else {
        biases.push_back({std::string(key.view()), *bias});
      }
    }
  } else {
    return fields.Wrong("logit_bias", "a list or an object", value);
  }
  if (biases.size() > wire::kBiasesMax) {
    return Fail(Code::kInvalidArgument, fields.PathOf("logit_bias"), ": ", biases.size(),
                " biases, at most ", wire::kBiasesMax);
  }
  return biases;
}

// One of llama-server's triggers: {"type": 0 (a token) or 1 (a word), "value", "token"}.
Result<GrammarStart> ReadTrigger(const Value& trigger, const std::string& path) {
  if (!trigger.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
  const Fields fields(trigger, path + ".");
  KVD_TRY(const std::int64_t type, fields.Int("type", 1, 0, 3));
  if (type > 1) {
    return Fail(Code::kInvalidArgument, path, ".type: patterns are not supported as triggers");
  }
  if (type == 0) {
    KVD_TRY(const std::int64_t token, fields.Int("token", -1, 0, kIntMax));
    if (token < 0) return Fail(Code::kInvalidArgument, path, ".token: missing");
    return GrammarStart{static_cast<std::int32_t>(token), {}};
  }
  KVD_TRY(std::string word, fields.String("value"));
  if (word.empty()) return Fail(Code::kInvalidArgument, path, ".value: missing");
  KVD_CHECK_OK(CheckTexts(path + ".value", {word}, 1, wire::kTriggerBytesMax));
  return GrammarStart{-1, std::move(word)};
}

Status ReadTriggers(const Fields& fields, AnswerRequest& request) {
  KVD_TRY(const bool is_lazy, fields.Bool("grammar_lazy", false));
  if (!is_lazy) return {};
  KVD_TRY(const Value triggers, fields.List("grammar_triggers"));
  const std::string path = fields.PathOf("grammar_triggers");
  const std::size_t count = triggers.is_missing() ? 0 : triggers.items().size();
  if (count == 0 || count > wire::kTriggersMax) {
    return Fail(Code::kInvalidArgument, path, ": a lazy grammar needs 1 to ", wire::kTriggersMax,
                " triggers");
  }
  for (std::size_t i = 0; i < count; ++i) {
    KVD_TRY(GrammarStart start, ReadTrigger(triggers.items()[i], Concat(path, "[", i, "]")));
    request.triggers.push_back(std::move(start));
  }
  return {};
}

Status ReadProbs(const Fields& fields, AnswerRequest& request) {
  // "logprobs" is a number in completions, and true or false in chats.
  const Value& logprobs = fields.Find("logprobs");
  const bool is_switch = logprobs.is_bool();
  const std::string_view name = is_switch ? "n_probs" : FirstOf(fields, {"n_probs", "logprobs"});
  KVD_TRY(const std::int64_t count, fields.Int(name, 0, 0, wire::kLogprobsMax));
  if (count == 0) return {};
  request.wants_logprobs = true;
  request.logprob_count = static_cast<std::uint32_t>(count);
  return {};
}

}  // namespace

AnswerRequest DefaultRequest(const Settings& settings) {
  const GenerationDefaults& defaults = settings.defaults;
  AnswerRequest request;
  request.sampling = defaults.sampling;
  request.seed = defaults.seed;
  request.predict_max = defaults.predict_max;
  request.keep = defaults.keep;
  request.ignores_eos = defaults.ignores_eos;
  request.caches_prompt = defaults.caches_prompt;
  request.biases = defaults.biases;
  request.breakers = defaults.breakers;
  request.shows_special = defaults.shows_special;
  request.shifts_context = settings.shifts_context;
  request.grammar = defaults.grammar;
  return request;
}

Result<UnreadTexts> ReadSamplingFields(const Fields& fields, AnswerRequest& request) {
  KVD_CHECK_OK(ReadSampling(fields, request.sampling));
  KVD_CHECK_OK(ReadEnds(fields, request));
  KVD_CHECK_OK(ReadBreakers(fields, request));
  KVD_TRY(const auto seed, fields.OptionalInt("seed", -1, kRandomSeed));
  if (seed) request.seed = static_cast<std::uint32_t>(*seed);
  KVD_CHECK_OK(ReadProbs(fields, request));
  KVD_TRY(request.caches_prompt, fields.Bool("cache_prompt", request.caches_prompt));
  KVD_TRY(const auto slot, fields.OptionalInt("id_slot", -1, kIntMax));
  if (slot && *slot >= 0) request.slot = static_cast<std::uint32_t>(*slot);
  KVD_TRY(request.wants_progress, fields.Bool("return_progress", false));
  KVD_TRY([[maybe_unused]] const auto least, fields.OptionalInt("min_keep", 0, kIntMax));
  UnreadTexts texts;
  KVD_TRY(texts.biases, ReadBiases(fields));
  KVD_CHECK_OK(ReadTriggers(fields, request));
  KVD_TRY(texts.preserved_tokens, fields.Strings("preserved_tokens"));
  return texts;
}

Result<std::string> GrammarOfSchema(std::string_view name, const Value& schema) {
  if (!schema.is_dict() && !schema.is_bool()) {
    return Fail(Code::kInvalidArgument, name, ": a JSON Schema is needed, not ", Shown(schema));
  }
  auto grammar = SchemaGrammar(schema);
  if (!grammar) return Fail(Code::kInvalidArgument, name, ": ", grammar.error().message);
  return grammar;
}

Status ReadGrammarFields(const Fields& fields, const Value& default_schema,
                         AnswerRequest& request) {
  const Value& own = fields.Find("json_schema");
  const Value& schema = own.is_missing() ? default_schema : own;
  if (!schema.is_missing() && !fields.Has("grammar")) {
    KVD_TRY(request.grammar, GrammarOfSchema(fields.PathOf("json_schema"), schema));
  } else {
    KVD_TRY(request.grammar, fields.String("grammar", request.grammar));
  }
  if (request.grammar.size() > wire::kGrammarBytesMax) {
    return Fail(Code::kInvalidArgument, "grammar: ", request.grammar.size(), " bytes, at most ",
                wire::kGrammarBytesMax);
  }
  if (request.grammar.empty()) request.triggers.clear();
  return {};
}

Await<Status> ReadTexts(TenantSession& tenant, UnreadTexts texts, AnswerRequest& request) {
  const auto vocabulary = static_cast<TokenId>(tenant.model().info().vocab_size);
  std::map<TokenId, float> biases;
  for (const wire::LogitBias& bias : request.biases) biases[bias.token] += bias.bias;
  std::shared_ptr<DaemonSession> session;
  if (!texts.biases.empty() || !texts.preserved_tokens.empty()) {
    KVD_CO_TRY(session, tenant.session());
  }
  for (const BiasField& field : texts.biases) {
    std::vector<TokenId> tokens;
    if (const auto* const text = std::get_if<std::string>(&field.what)) {
      KVD_CO_TRY(tokens, co_await session->Tokenize(*text, std::uint16_t{0}));
    } else {
      tokens.push_back(std::get<TokenId>(field.what));
    }
    for (const TokenId token : tokens) {
      if (token >= 0 && token < vocabulary) biases[token] += field.bias;
    }
  }
  if (biases.size() > wire::kBiasesMax) {
    co_return Fail(Code::kInvalidArgument, "logit_bias: ", biases.size(), " tokens, at most ",
                   wire::kBiasesMax);
  }
  request.biases.clear();
  const float most = wire::kBiasMax;
  for (const auto& [token, bias] : biases) {
    request.biases.push_back({token, std::isinf(bias) ? bias : std::clamp(bias, -most, most)});
  }
  for (GrammarStart& start : request.triggers) {
    const auto& kept = texts.preserved_tokens;
    if (start.token >= 0 || std::ranges::find(kept, start.text) == kept.end()) continue;
    KVD_CO_TRY(const std::vector<TokenId> tokens,
               co_await session->Tokenize(start.text, std::uint16_t{wire::kFlagParseSpecial}));
    if (tokens.size() == 1) start = {tokens.front(), {}};
  }
  co_return Status();
}

Await<Result<AnswerRequest>> ReadAnswerRequest(TenantSession& tenant, const Value& body) {
  const Settings& settings = tenant.model().settings();
  const Fields fields(body);
  AnswerRequest request = DefaultRequest(settings);
  KVD_CO_TRY(UnreadTexts texts, ReadSamplingFields(fields, request));
  if (request.slot && *request.slot >= tenant.model().slot_count()) {
    co_return Fail(Code::kInvalidArgument, "id_slot: ", *request.slot, " is not within 0 to ",
                   tenant.model().slot_count() - 1);
  }
  KVD_CO_CHECK_OK(co_await ReadTexts(tenant, std::move(texts), request));
  co_return request;
}

}  // namespace kvd::http
