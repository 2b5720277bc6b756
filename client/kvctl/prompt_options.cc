#include "client/kvctl/prompt_options.h"

#include <string>
#include <vector>

#include "shm/sampler_chain.h"

namespace kvd::kvctl {
namespace {

void AddChain(CLI::App& sub, SamplingParams& sampling) {
  const auto parse = [&sampling](auto parser) {
    return [&sampling, parser](const std::string& text) {
      const Result<SamplerChain> chain = parser(text);
      if (!chain) throw CLI::ValidationError(chain.error().message);
      sampling.chain = *chain;
    };
  };
  auto* names =
      sub.add_option_function<std::string>(
             "--samplers", parse(ParseSamplerNames),
             "Samplers in their order, separated by ';'; the others are off; adaptive_p draws "
             "last. Default: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature.")
          ->type_name("NAMES");
  sub.add_option_function<std::string>(
         "--sampler-seq,--sampling-seq", parse(ParseSamplerLetters),
         "The --samplers as letters; a: adaptive_p. Default: edskypmxt.")
      ->type_name("LETTERS")
      ->excludes(names);
}

void AddTruncation(CLI::App& sub, SamplingParams& sampling) {
  sub.add_option("--top-k", sampling.top_k,
                 "Number of the likeliest tokens from which to sample. 0: off. Default: 40. Range: "
                 "0 or more.")
      ->type_name("N");
  sub.add_option("--top-p", sampling.top_p,
                 "Total probability of the likeliest tokens from which to sample. 1: off. Default: "
                 "0.95. Range: above 0, to 1.")
      ->type_name("NUMBER");
  sub.add_option("--min-p", sampling.min_p,
                 "Minimum probability relative to the likeliest token. 0: off. Default: 0.05. "
                 "Range: 0 to 1.")
      ->type_name("NUMBER");
  sub.add_option("--typical,--typical-p", sampling.typical_p,
                 "Total probability of the locally typical tokens from which to sample. 1: off. "
                 "Default: 1. Range: above 0, to 1.")
      ->type_name("NUMBER");
  sub.add_option("--top-nsigma,--top-n-sigma", sampling.top_n_sigma,
                 "Number of standard deviations below the largest logit within which tokens are "
                 "kept. 0 or less: off. Default: -1.")
      ->type_name("NUMBER");
  sub.add_option("--xtc-probability", sampling.xtc_probability,
                 "XTC: probability with which a draw excludes the top choices. 0: off. Default: 0. "
                 "Range: 0 to 1.")
      ->type_name("NUMBER");
  sub.add_option("--xtc-threshold", sampling.xtc_threshold,
                 "XTC: probability from which a token is a top choice. Above 0.5: off. Default: "
                 "0.1. Range: 0 to 1.")
      ->type_name("NUMBER");
}

void AddPenalties(CLI::App& sub, RunOptions& run) {
  SamplingParams& sampling = run.sampling;
  sub.add_option("--repeat-penalty", sampling.repeat_penalty,
                 "Factor of the penalty for repeated tokens. 1: off. Default: 1. Range: above 0.")
      ->type_name("NUMBER");
  sub.add_option("--repeat-last-n", sampling.repeat_last,
                 "Number of last tokens that penalties apply to. 0: none. -1: all. Default: 64. "
                 "Range: -1 or more.")
      ->type_name("N");
  sub.add_option("--presence-penalty", sampling.presence_penalty,
                 "Penalty for tokens that occurred. 0: off. Default: 0. Range: -2 to 2.")
      ->type_name("NUMBER");
  sub.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "Penalty for each occurrence of a token. 0: off. Default: 0. Range: -2 to 2.")
      ->type_name("NUMBER");
  sub.add_option("--dry-multiplier", sampling.dry_multiplier,
                 "DRY: factor of the penalty for continued repetitions. 0: off. Default: 0. Range: "
                 "0 or more.")
      ->type_name("NUMBER");
  sub.add_option("--dry-base", sampling.dry_base,
                 "DRY: base of the penalty multiplier * base^(length - allowed length). Default: "
                 "1.75. Range: 1 or more.")
      ->type_name("NUMBER");
  sub.add_option("--dry-allowed-length", sampling.dry_allowed_length,
                 "DRY: length in tokens from which repetitions are penalised. Default: 2. Range: 0 "
                 "or more.")
      ->type_name("N");
  sub.add_option("--dry-penalty-last-n", sampling.dry_penalty_last,
                 "DRY: number of last tokens to search for repetitions. 0: none. -1: all. Default: "
                 "64. Range: -1 or more.")
      ->type_name("N");
  sub.add_option("--dry-sequence-breaker", run.breakers,
                 "DRY: text across which repetitions do not reach. none: no such text. Can be "
                 "given several times. Default: \"\\n\", \":\", \"\\\"\" and \"*\".")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

}  // namespace

void AddSamplingOptions(CLI::App& sub, RunOptions& run) {
  SamplingParams& sampling = run.sampling;
  sub.option_defaults()->group("Sampling");
  AddChain(sub, sampling);
  sub.add_option("-t,--temp", sampling.temperature,
                 "Temperature. 0: greedy. Default: 0.8. Range: 0 or more.")
      ->type_name("NUMBER");
  sub.add_option("--dynatemp-range", sampling.dynatemp_range,
                 "Range within which the temperature follows the entropy. 0: off. Default: 0. "
                 "Range: 0 or more.")
      ->type_name("NUMBER");
  sub.add_option(
         "--dynatemp-exp", sampling.dynatemp_exponent,
         "Exponent of the entropy in the dynamic temperature. Default: 1. Range: 0 or more.")
      ->type_name("NUMBER");
  AddTruncation(sub, sampling);
  AddPenalties(sub, run);
  sub.add_option(
         "--mirostat", sampling.mirostat,
         "Version of mirostat, which replaces --samplers. 0: off. Default: 0. Range: 0 to 2.")
      ->type_name("N");
  sub.add_option("--mirostat-lr", sampling.mirostat_eta,
                 "Mirostat: learning rate. Default: 0.1. Range: 0 to 1000.")
      ->type_name("NUMBER");
  sub.add_option("--mirostat-ent", sampling.mirostat_tau,
                 "Mirostat: target surprise in bits. Default: 5. Range: 0 to 1000.")
      ->type_name("BITS");
  sub.add_option(
         "--adaptive-target", sampling.adaptive_target,
         "adaptive_p: probability of preferred tokens. Negative: off. Default: -1. Range: -1 to 1.")
      ->type_name("NUMBER");
  sub.add_option("--adaptive-decay", sampling.adaptive_decay,
                 "adaptive_p: weight of the past in the average. Default: 0.9. Range: 0 to 0.99.")
      ->type_name("NUMBER");
  sub.option_defaults()->group("Options");
}

void AddChatOptions(CLI::App& sub, ChatOptions& options, bool is_optional) {
  sub.option_defaults()->group("Chat");
  std::vector<CLI::Option*> added = {
      sub.add_option("--system", options.system, "Text of the system message. Default: none.")
          ->type_name("TEXT"),
      sub.add_option("--messages", options.messages_path,
                     "File with a JSON list of messages, or with an object of messages, tools and "
                     "other members. Default: none.")
          ->type_name("FILE"),
      sub.add_option("--tools", options.tools_path,
                     "File with a JSON list of tools. Default: none.")
          ->type_name("FILE"),
      sub.add_option("--chat-template", options.chat_template,
                     "File with a Jinja program, or name of a template of the model or of a format "
                     "(chatml, llama3, gemma, ...). Default: the model's template.")
          ->type_name("TEMPLATE"),
      sub.add_option("--chat-template-kwargs", options.variables,
                     "Object with further variables of the template. Default: none.")
          ->type_name("JSON"),
      sub.add_option("--thinking", options.thinking,
                     "Whether the model reasons, if its template has the choice: on or off. "
                     "Default: the template's.")
          ->type_name("MODE")
          ->check(CLI::IsMember({"on", "off"})),
      sub.add_option("--prefill", options.prefill,
                     "Text with which the answer begins. Default: none.")
          ->type_name("TEXT")};
  if (is_optional) {
    auto* chat =
        sub.add_flag("--chat", options.is_chat,
                     "Treat the prompt as a user's message, with the model's chat template.");
    for (CLI::Option* option : added) option->needs(chat);
  }
  sub.option_defaults()->group("Options");
}

}  // namespace kvd::kvctl
