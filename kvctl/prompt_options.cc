#include "kvctl/prompt_options.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/flag.h"
#include "shm/sampler_chain.h"

namespace kvd::kvctl {
namespace {

constexpr std::int64_t kIntMin = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kIntMax = std::numeric_limits<std::int32_t>::max();

template <Result<SamplerChain> (*parse)(std::string_view)>
Status TakeChain(CommandLine& line, const FlagValue& value) {
  auto chain = parse(value.text);
  if (!chain) return Fail(chain.error().code, value.name, ": ", chain.error().message);
  line.run.sampling.chain = *chain;
  return {};
}

template <auto... member>
Status TakeThinking(CommandLine& line, const FlagValue& value) {
  KVD_CHECK_OK(value.Choice("on off"));
  return TakeText<member...>(line, value);
}

// The flags of a chat, of which `owner` has the ChatOptions `chat`. `needs`: the flag without which
// they are an error.
template <auto owner, auto chat>
constexpr std::array<Flag<CommandLine>, kChatFlagCount> ChatFlags(std::string_view needs) {
  return {{
      {.names = "--system",
       .argument = "TEXT",
       .help = "Text of the system message. Default: none.",
       .take = TakeText<owner, chat, &ChatOptions::system>,
       .needs = needs},
      {.names = "--messages",
       .argument = "FILE",
       .help = "File with a JSON list of messages, or with an object of messages, tools and "
               "other members. Default: none.",
       .take = TakeText<owner, chat, &ChatOptions::messages_path>,
       .needs = needs},
      {.names = "--tools",
       .argument = "FILE",
       .help = "File with a JSON list of tools. Default: none.",
       .take = TakeText<owner, chat, &ChatOptions::tools_path>,
       .needs = needs},
      {.names = "--chat-template",
       .argument = "TEMPLATE",
       .help = "File with a Jinja program, or name of a template of the model or of a format "
               "(chatml, llama3, gemma, ...). Default: the model's template.",
       .take = TakeText<owner, chat, &ChatOptions::chat_template>,
       .needs = needs},
      {.names = "--chat-template-kwargs",
       .argument = "JSON",
       .help = "Object with further variables of the template. Default: none.",
       .take = TakeText<owner, chat, &ChatOptions::variables>,
       .needs = needs},
      {.names = "--thinking",
       .argument = "MODE",
       .help = "Whether the model reasons, if its template has the choice: on or off. "
               "Default: the template's.",
       .take = TakeThinking<owner, chat, &ChatOptions::thinking>,
       .needs = needs},
      {.names = "--prefill",
       .argument = "TEXT",
       .help = "Text with which the answer begins. Default: none.",
       .take = TakeText<owner, chat, &ChatOptions::prefill>,
       .needs = needs},
      {.names = "--chat",
       .help = "Treat the prompt as a user's message, with the model's chat template.",
       .take = TakeSwitch<owner, chat, &ChatOptions::is_chat>},
  }};
}

}  // namespace

constexpr std::array<Flag<CommandLine>, kChatFlagCount> kRunChatFlags =
    ChatFlags<&CommandLine::run, &RunOptions::chat>("--chat");
constexpr std::array<Flag<CommandLine>, kChatFlagCount> kWarmChatFlags =
    ChatFlags<&CommandLine::warm, &WarmOptions::chat>("--chat");
constexpr std::array<Flag<CommandLine>, kChatFlagCount> kWhyChatFlags =
    ChatFlags<&CommandLine::text, &TextOptions::chat>("--chat");

// Without the last one, --chat.
constexpr std::array<Flag<CommandLine>, kChatFlagCount - 1> kChatVerbFlags = [] {
  constexpr auto kAll = ChatFlags<&CommandLine::text, &TextOptions::chat>("");
  std::array<Flag<CommandLine>, kChatFlagCount - 1> flags;
  std::ranges::copy_n(kAll.begin(), flags.size(), flags.begin());
  return flags;
}();

constexpr std::array<Flag<CommandLine>, kSamplingFlagCount> kSamplingFlags = {{
    {.names = "--samplers",
     .argument = "NAMES",
     .help = "Samplers in their order, separated by ';'; the others are off; adaptive_p draws "
             "last. Default: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature.",
     .take = TakeChain<ParseSamplerNames>,
     .excludes = "--sampler-seq"},
    {.names = "--sampler-seq --sampling-seq",
     .argument = "LETTERS",
     .help = "The --samplers as letters; a: adaptive_p. Default: edskypmxt.",
     .take = TakeChain<ParseSamplerLetters>,
     .excludes = "--samplers"},
    ValueFlag("-t --temp", "NUMBER", "Temperature. 0: greedy. Default: 0.8. Range: 0 or more.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::temperature>),
    ValueFlag("--dynatemp-range", "NUMBER",
              "Range within which the temperature follows the entropy. 0: off. Default: 0. "
              "Range: 0 or more.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::dynatemp_range>),
    ValueFlag(
        "--dynatemp-exp", "NUMBER",
        "Exponent of the entropy in the dynamic temperature. Default: 1. Range: 0 or more.",
        TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::dynatemp_exponent>),
    ValueFlag("--top-k", "N",
              "Number of the likeliest tokens from which to sample. 0: off. Default: 40. Range: "
              "0 or more.",
              TakeNumber<kIntMin, kIntMax, &CommandLine::run, &RunOptions::sampling,
                         &SamplingParams::top_k>),
    ValueFlag("--top-p", "NUMBER",
              "Total probability of the likeliest tokens from which to sample. 1: off. Default: "
              "0.95. Range: above 0, to 1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::top_p>),
    ValueFlag("--min-p", "NUMBER",
              "Minimum probability relative to the likeliest token. 0: off. Default: 0.05. "
              "Range: 0 to 1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::min_p>),
    ValueFlag("--typical --typical-p", "NUMBER",
              "Total probability of the locally typical tokens from which to sample. 1: off. "
              "Default: 1. Range: above 0, to 1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::typical_p>),
    ValueFlag("--top-nsigma --top-n-sigma", "NUMBER",
              "Number of standard deviations below the largest logit within which tokens are "
              "kept. 0 or less: off. Default: -1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::top_n_sigma>),
    ValueFlag("--xtc-probability", "NUMBER",
              "XTC: probability with which a draw excludes the top choices. 0: off. Default: 0. "
              "Range: 0 to 1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::xtc_probability>),
    ValueFlag("--xtc-threshold", "NUMBER",
              "XTC: probability from which a token is a top choice. Above 0.5: off. Default: "
              "0.1. Range: 0 to 1.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::xtc_threshold>),
    ValueFlag("--repeat-penalty", "NUMBER",
              "Factor of the penalty for repeated tokens. 1: off. Default: 1. Range: above 0.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::repeat_penalty>),
    ValueFlag("--repeat-last-n", "N",
              "Number of last tokens that penalties apply to. 0: none. -1: all. Default: 64. "
              "Range: -1 or more.",
              TakeNumber<kIntMin, kIntMax, &CommandLine::run, &RunOptions::sampling,
                         &SamplingParams::repeat_last>),
    ValueFlag(
        "--presence-penalty", "NUMBER",
        "Penalty for tokens that occurred. 0: off. Default: 0. Range: -2 to 2.",
        TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::presence_penalty>),
    ValueFlag(
        "--frequency-penalty", "NUMBER",
        "Penalty for each occurrence of a token. 0: off. Default: 0. Range: -2 to 2.",
        TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::frequency_penalty>),
    ValueFlag("--dry-multiplier", "NUMBER",
              "DRY: factor of the penalty for continued repetitions. 0: off. Default: 0. Range: "
              "0 or more.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::dry_multiplier>),
    ValueFlag("--dry-base", "NUMBER",
              "DRY: base of the penalty multiplier * base^(length - allowed length). Default: "
              "1.75. Range: 1 or more.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::dry_base>),
    ValueFlag("--dry-allowed-length", "N",
              "DRY: length in tokens from which repetitions are penalised. Default: 2. Range: 0 "
              "or more.",
              TakeNumber<kIntMin, kIntMax, &CommandLine::run, &RunOptions::sampling,
                         &SamplingParams::dry_allowed_length>),
    ValueFlag("--dry-penalty-last-n", "N",
              "DRY: number of last tokens to search for repetitions. 0: none. -1: all. Default: "
              "64. Range: -1 or more.",
              TakeNumber<kIntMin, kIntMax, &CommandLine::run, &RunOptions::sampling,
                         &SamplingParams::dry_penalty_last>),
    ValueFlag("--dry-sequence-breaker", "TEXT",
              "DRY: text across which repetitions do not reach. none: no such text. Can be "
              "given several times. Default: \"\\n\", \":\", \"\\\"\" and \"*\".",
              TakeMore<&CommandLine::run, &RunOptions::breakers>),
    ValueFlag("--mirostat", "N",
              "Version of mirostat, which replaces --samplers. 0: off. Default: 0. Range: 0 to 2.",
              TakeNumber<kIntMin, kIntMax, &CommandLine::run, &RunOptions::sampling,
                         &SamplingParams::mirostat>),
    ValueFlag("--mirostat-lr", "NUMBER", "Mirostat: learning rate. Default: 0.1. Range: 0 to 1000.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::mirostat_eta>),
    ValueFlag("--mirostat-ent", "BITS",
              "Mirostat: target surprise in bits. Default: 5. Range: 0 to 1000.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::mirostat_tau>),
    ValueFlag(
        "--adaptive-target", "NUMBER",
        "adaptive_p: probability of preferred tokens. Negative: off. Default: -1. Range: -1 to 1.",
        TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::adaptive_target>),
    ValueFlag("--adaptive-decay", "NUMBER",
              "adaptive_p: weight of the past in the average. Default: 0.9. Range: 0 to 0.99.",
              TakeReal<&CommandLine::run, &RunOptions::sampling, &SamplingParams::adaptive_decay>),
}};

}  // namespace kvd::kvctl
