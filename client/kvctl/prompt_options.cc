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
  auto* names = sub.add_option_function<std::string>(
      "--samplers", parse(ParseSamplerNames),
      "samplers in their order, separated by ';'; the others are off; adaptive_p draws last "
      "[penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature]");
  sub.add_option_function<std::string>("--sampler-seq,--sampling-seq", parse(ParseSamplerLetters),
                                       "--samplers as letters; a: adaptive_p [edskypmxt]")
      ->excludes(names);
}

void AddTruncation(CLI::App& sub, SamplingParams& sampling) {
  sub.add_option("--top-k", sampling.top_k,
                 "sample from the K likeliest tokens; 0: off; >= 0 [40]");
  sub.add_option("--top-p", sampling.top_p,
                 "sample from the likeliest tokens with this total probability; 1: off; (0, 1] "
                 "[0.95]");
  sub.add_option("--min-p", sampling.min_p,
                 "minimum probability relative to the likeliest token; 0: off; [0, 1] [0.05]");
  sub.add_option("--typical,--typical-p", sampling.typical_p,
                 "locally typical sampling with this total probability; 1: off; (0, 1] [1]");
  sub.add_option("--top-nsigma,--top-n-sigma", sampling.top_n_sigma,
                 "keep tokens within this number of standard deviations of the largest logit; 0 or "
                 "less: off [-1]");
  sub.add_option("--xtc-probability", sampling.xtc_probability,
                 "XTC: probability with which a draw excludes the top choices; 0: off; [0, 1] [0]");
  sub.add_option("--xtc-threshold", sampling.xtc_threshold,
                 "XTC: probability from which a token is a top choice; above 0.5: off; [0, 1] "
                 "[0.1]");
}

void AddPenalties(CLI::App& sub, RunOptions& run) {
  SamplingParams& sampling = run.sampling;
  sub.add_option("--repeat-penalty", sampling.repeat_penalty,
                 "penalty factor for repeated tokens; 1: off; > 0 [1]");
  sub.add_option("--repeat-last-n", sampling.repeat_last,
                 "number of last tokens that penalties apply to; 0: none, -1: all [64]");
  sub.add_option("--presence-penalty", sampling.presence_penalty,
                 "penalty for tokens that occurred; 0: off; [-2, 2] [0]");
  sub.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "penalty for each occurrence of a token; 0: off; [-2, 2] [0]");
  sub.add_option("--dry-multiplier", sampling.dry_multiplier,
                 "DRY: factor of the penalty for continued repetitions; 0: off; >= 0 [0]");
  sub.add_option("--dry-base", sampling.dry_base,
                 "DRY: base of the penalty multiplier * base^(length - allowed length); >= 1 "
                 "[1.75]");
  sub.add_option("--dry-allowed-length", sampling.dry_allowed_length,
                 "DRY: length in tokens from which repetitions are penalised; >= 0 [2]");
  sub.add_option("--dry-penalty-last-n", sampling.dry_penalty_last,
                 "DRY: number of last tokens to search for repetitions; 0: none, -1: all [64]");
  sub.add_option("--dry-sequence-breaker", run.breakers,
                 "DRY: repetitions do not reach across this text; may be repeated; none: no "
                 "breakers [\"\\n\", \":\", \"\\\"\", \"*\"]")
      ->allow_extra_args(false);
}

}  // namespace

void AddSamplingOptions(CLI::App& sub, RunOptions& run) {
  SamplingParams& sampling = run.sampling;
  AddChain(sub, sampling);
  sub.add_option("-t,--temp", sampling.temperature, "temperature; 0: greedy; >= 0 [0.8]");
  sub.add_option("--dynatemp-range", sampling.dynatemp_range,
                 "the temperature follows the entropy within this range; 0: off; >= 0 [0]");
  sub.add_option("--dynatemp-exp", sampling.dynatemp_exponent,
                 "exponent of the entropy in the dynamic temperature; >= 0 [1]");
  AddTruncation(sub, sampling);
  AddPenalties(sub, run);
  sub.add_option("--mirostat", sampling.mirostat,
                 "1, 2: mirostat of this version instead of --samplers; 0: off [0]");
  sub.add_option("--mirostat-lr", sampling.mirostat_eta,
                 "mirostat: learning rate; [0, 1000] [0.1]");
  sub.add_option("--mirostat-ent", sampling.mirostat_tau,
                 "mirostat: target surprise in bits; [0, 1000] [5]");
  sub.add_option("--adaptive-target", sampling.adaptive_target,
                 "adaptive_p: probability of preferred tokens; negative: off; [-1, 1] [-1]");
  sub.add_option("--adaptive-decay", sampling.adaptive_decay,
                 "adaptive_p: weight of the past in the average; [0, 0.99] [0.9]");
}

void AddChatOptions(CLI::App& sub, ChatOptions& options, bool is_optional) {
  std::vector<CLI::Option*> added = {
      sub.add_option("--system", options.system, "the system message"),
      sub.add_option("--messages", options.messages_path,
                     "file with a JSON list of messages, or an object with messages, tools, ..."),
      sub.add_option("--tools", options.tools_path, "file with a JSON list of tools"),
      sub.add_option("--chat-template", options.chat_template,
                     "a file with a Jinja program, the name of a template of the model, or of a "
                     "format (chatml, llama3, gemma, ...); default: the model's template"),
      sub.add_option("--chat-template-kwargs", options.variables,
                     "JSON object with further variables of the template"),
      sub.add_option("--thinking", options.thinking,
                     "whether the model reasons, if its template has the choice")
          ->check(CLI::IsMember({"on", "off"})),
      sub.add_option("--prefill", options.prefill, "text with which the answer begins")};
  if (!is_optional) return;
  auto* chat = sub.add_flag("--chat", options.is_chat,
                            "treat the prompt as a user's message, with the model's chat template");
  for (CLI::Option* option : added) option->needs(chat);
}

}  // namespace kvd::kvctl
