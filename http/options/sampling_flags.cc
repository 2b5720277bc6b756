// The flags of generation: what a request gets that does not name a field.
//
// llama-server takes numbers that switch a sampler off in more than one form; here they become the
// one that SamplingParams has: a top_k below 0 is 0, a top_p or typical_p of 1 or more is 1.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "http/options/parse_flags.h"
#include "text/json.h"

namespace kvd::http {
namespace {

constexpr std::int64_t kIntMax = 0x7fffffff;

SamplingParams& SamplingOf(Settings& settings) { return settings.defaults.sampling; }

// A flag that sets one number of the sampling parameters.
template <float SamplingParams::* kField>
Status TakeReal(Settings& settings, const FlagValue& value) {
  return value.Real(SamplingOf(settings).*kField);
}
template <std::int32_t SamplingParams::* kField, std::int64_t kLeast>
Status TakeInteger(Settings& settings, const FlagValue& value) {
  return value.Number(SamplingOf(settings).*kField, kLeast, kIntMax);
}
template <float SamplingParams::* kField>
Status TakeShare(Settings& settings, const FlagValue& value) {
  KVD_CHECK_OK(value.Real(SamplingOf(settings).*kField));
  float& share = SamplingOf(settings).*kField;
  if (share >= 1) share = 1;
  return {};
}

Status TakeTemperature(Settings& settings, const FlagValue& value) {
  float& temperature = SamplingOf(settings).temperature;
  KVD_CHECK_OK(value.Real(temperature));
  if (temperature < 0) temperature = 0;
  return {};
}

Status TakeTopK(Settings& settings, const FlagValue& value) {
  KVD_TRY(const std::int64_t top_k, value.Integer(-kIntMax, kIntMax));
  SamplingOf(settings).top_k = static_cast<std::int32_t>(std::max<std::int64_t>(top_k, 0));
  return {};
}

Status TakeSeed(Settings& settings, const FlagValue& value) {
  // -1 is llama.cpp's usual form of "a random seed".
  KVD_TRY(const std::int64_t seed, value.Integer(-1, kRandomSeed));
  settings.defaults.seed = static_cast<std::uint32_t>(seed);
  return {};
}

Status TakePredict(Settings& settings, const FlagValue& value) {
  KVD_TRY(const std::int64_t count, value.Integer(-2, kIntMax));
  settings.defaults.predict_max = static_cast<std::int32_t>(std::max<std::int64_t>(count, -1));
  return {};
}

Status TakeBreaker(Settings& settings, const FlagValue& value) {
  auto& breakers = settings.defaults.breakers;
  if (!breakers) breakers.emplace();
  if (value.text == "none") {
    breakers->clear();
  } else {
    breakers->emplace_back(value.text);
  }
  return {};
}

// "15043+1", "15043-inf"
Status TakeBias(Settings& settings, const FlagValue& value) {
  const std::size_t sign = value.text.find_first_of("+-", 1);
  const FlagValue token{.name = value.name, .text = value.text.substr(0, sign)};
  const FlagValue bias{
      .name = value.name,
      .text = sign == std::string_view::npos ? std::string_view() : value.text.substr(sign)};
  wire::LogitBias record{};
  if (!token.Number(record.token, 0, kIntMax) || !bias.Real(record.bias) ||
      std::isnan(record.bias)) {
    return value.Wrong("TOKEN+BIAS or TOKEN-BIAS");
  }
  settings.defaults.biases.push_back(record);
  return {};
}

Status TakeSchemaText(Settings& settings, const FlagValue& value, std::string_view text) {
  Result<Value> schema = ParseJson(text);
  if (!schema) return Fail(Code::kInvalidArgument, value.name, ": ", schema.error().message);
  settings.defaults.json_schema = std::move(*schema);
  settings.defaults.grammar.clear();
  return {};
}

constexpr std::array kSamplingFlags = {
    Flag{.names = "-n --predict --n-predict",
         .argument = "N",
         .environment = "LLAMA_ARG_N_PREDICT",
         .help = "maximum number of tokens of an answer; -1: until an end token [-1]",
         .take = TakePredict},
    Flag{.names = "--keep",
         .argument = "N",
         .help = "tokens that a context shift keeps at the beginning; -1: the prompt [0]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.defaults.keep, -1, kIntMax);
             }},
    Flag{.names = "--context-shift",
         .negatives = "--no-context-shift",
         .environment = "LLAMA_ARG_CONTEXT_SHIFT",
         .help = "continue an answer at the end of the context by dropping old tokens [off]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.shifts_context = value.is_on;
           return {};
         }},
    Flag{.names = "-sp --special",
         .help = "show special tokens in answers",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.defaults.shows_special = true;
           return {};
         }},
    Flag{.names = "--spm-infill",
         .help = "prompts of /infill have the suffix first",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.infills_suffix_first = true;
           return {};
         }},
    Flag{.names = "-s --seed",
         .argument = "SEED",
         .help = "seed of the draws; -1: a random one [-1]",
         .take = TakeSeed},
    Flag{.names = "--samplers",
         .argument = "SAMPLERS",
         .help = "samplers in their order, between ';'",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(SamplingOf(settings).chain, ParseSamplerNames(value.text));
           return {};
         }},
    Flag{.names = "--sampler-seq --sampling-seq",
         .argument = "LETTERS",
         .help = "samplers in their order, a letter for each [edskypmxt]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(SamplingOf(settings).chain, ParseSamplerLetters(value.text));
           return {};
         }},
    Flag{.names = "--ignore-eos",
         .help = "do not stop at end tokens",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.defaults.ignores_eos = true;
           return {};
         }},
    Flag{.names = "--temp --temperature",
         .argument = "N",
         .help = "temperature; 0: always the most likely token [0.80]",
         .take = TakeTemperature},
    Flag{.names = "--top-k",
         .argument = "N",
         .environment = "LLAMA_ARG_TOP_K",
         .help = "keep the N most likely tokens; 0: all [40]",
         .take = TakeTopK},
    Flag{.names = "--top-p",
         .argument = "N",
         .help = "keep the most likely tokens whose probabilities sum to N; 1: all [0.95]",
         .take = TakeShare<&SamplingParams::top_p>},
    Flag{.names = "--min-p",
         .argument = "N",
         .help = "keep tokens with at least N times the largest probability; 0: all [0.05]",
         .take = TakeReal<&SamplingParams::min_p>},
    Flag{.names = "--top-nsigma --top-n-sigma",
         .argument = "N",
         .help = "keep logits within N standard deviations of the largest; -1: all [-1.00]",
         .take = TakeReal<&SamplingParams::top_n_sigma>},
    Flag{.names = "--xtc-probability",
         .argument = "N",
         .help = "probability with which XTC excludes the top choices [0.00]",
         .take = TakeReal<&SamplingParams::xtc_probability>},
    Flag{.names = "--xtc-threshold",
         .argument = "N",
         .help = "probability from which a token is a top choice for XTC [0.10]",
         .take = TakeReal<&SamplingParams::xtc_threshold>},
    Flag{.names = "--typical --typical-p",
         .argument = "N",
         .help = "locally typical sampling; 1: off [1.00]",
         .take = TakeShare<&SamplingParams::typical_p>},
    Flag{.names = "--repeat-last-n",
         .argument = "N",
         .help = "last tokens that penalties consider; 0: none, -1: all [64]",
         .take = TakeInteger<&SamplingParams::repeat_last, -1>},
    Flag{.names = "--repeat-penalty",
         .argument = "N",
         .help = "penalty of seen tokens; 1: none [1.00]",
         .take = TakeReal<&SamplingParams::repeat_penalty>},
    Flag{.names = "--presence-penalty",
         .argument = "N",
         .help = "subtracted from the logit of each seen token [0.00]",
         .take = TakeReal<&SamplingParams::presence_penalty>},
    Flag{.names = "--frequency-penalty",
         .argument = "N",
         .help = "subtracted from a logit for each occurrence of the token [0.00]",
         .take = TakeReal<&SamplingParams::frequency_penalty>},
    Flag{.names = "--dry-multiplier",
         .argument = "N",
         .help = "factor of DRY's penalty; 0: off [0.00]",
         .take = TakeReal<&SamplingParams::dry_multiplier>},
    Flag{.names = "--dry-base",
         .argument = "N",
         .help = "base of DRY's penalty [1.75]",
         .take = TakeReal<&SamplingParams::dry_base>},
    Flag{.names = "--dry-allowed-length",
         .argument = "N",
         .help = "tokens of a repetition that DRY allows [2]",
         .take = TakeInteger<&SamplingParams::dry_allowed_length, 0>},
    Flag{.names = "--dry-penalty-last-n",
         .argument = "N",
         .help = "last tokens that DRY considers; 0: none, -1: all [64]",
         .take = TakeInteger<&SamplingParams::dry_penalty_last, -1>},
    Flag{.names = "--dry-sequence-breaker",
         .argument = "TEXT",
         .help = "breaker for DRY instead of the default ones; may be repeated; none: no breaker",
         .take = TakeBreaker},
    Flag{.names = "-e --escape",
         .negatives = "--no-escape",
         .help = "breakers for DRY have the escapes \\n, \\t and so on [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.defaults.reads_escapes = value.is_on;
           return {};
         }},
    Flag{.names = "--adaptive-target",
         .argument = "N",
         .help = "adaptive-p prefers tokens of this probability; negative: off [-1.00]",
         .take = TakeReal<&SamplingParams::adaptive_target>},
    Flag{.names = "--adaptive-decay",
         .argument = "N",
         .help = "weight of the past in adaptive-p [0.90]",
         .take = TakeReal<&SamplingParams::adaptive_decay>},
    Flag{.names = "--dynatemp-range",
         .argument = "N",
         .help = "range around the temperature; 0: off [0.00]",
         .take = TakeReal<&SamplingParams::dynatemp_range>},
    Flag{.names = "--dynatemp-exp",
         .argument = "N",
         .help = "exponent of the dynamic temperature [1.00]",
         .take = TakeReal<&SamplingParams::dynatemp_exponent>},
    Flag{.names = "--mirostat",
         .argument = "N",
         .help = "version of mirostat: 1 or 2; 0: off [0]",
         .take = TakeInteger<&SamplingParams::mirostat, 0>},
    Flag{.names = "--mirostat-lr",
         .argument = "N",
         .help = "learning rate of mirostat [0.10]",
         .take = TakeReal<&SamplingParams::mirostat_eta>},
    Flag{.names = "--mirostat-ent",
         .argument = "N",
         .help = "target surprise of mirostat [5.00]",
         .take = TakeReal<&SamplingParams::mirostat_tau>},
    Flag{.names = "-l --logit-bias",
         .argument = "TOKEN(+|-)BIAS",
         .help = "added to the logit of a token; may be repeated",
         .take = TakeBias},
    Flag{.names = "--grammar",
         .argument = "GRAMMAR",
         .help = "grammar (GBNF) that holds every answer",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.defaults.grammar = value.text;
           settings.defaults.json_schema = {};
           return {};
         }},
    Flag{.names = "--grammar-file",
         .argument = "FNAME",
         .help = "file with such a grammar",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(settings.defaults.grammar, value.FileText());
           settings.defaults.json_schema = {};
           return {};
         }},
    Flag{
        .names = "-j --json-schema",
        .argument = "SCHEMA",
        .help = "JSON Schema that holds every answer",
        .take = [](Settings& settings,
                   const FlagValue& value) { return TakeSchemaText(settings, value, value.text); }},
    Flag{.names = "-jf --json-schema-file",
         .argument = "FILE",
         .help = "file with such a schema",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(const std::string text, value.FileText());
           return TakeSchemaText(settings, value, text);
         }},
};

}  // namespace

std::span<const Flag> SamplingFlags() { return kSamplingFlags; }

}  // namespace kvd::http
