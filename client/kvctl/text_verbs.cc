// The command line of the verbs that take a text: run, tokenize, why, chat, template, embed, rank.
#include "client/kvctl/command_line.h"
#include "client/kvctl/commands.h"
#include "client/kvctl/prompt_options.h"
#include "shm/wire_messages.h"

namespace kvd::kvctl {

void AddRunVerb(CLI::App& app, CommandLine& line) {
  RunOptions& run = line.run;
  CLI::App* sub = AddVerb(
      app, line, "run", "Continue a prompt and print the text as it is generated",
      "run --chat -n 64 'Why is the sky blue?'", [&line] { return Run(line.global, line.run); });
  sub->add_option_function<std::string>(
         "prompt",
         [&run](const std::string& text) {
           run.prompt = text;
           run.has_prompt = true;
         },
         "Text to continue. Default: read standard input.")
      ->type_name("TEXT");
  AddChatOptions(*sub, run.chat, true);
  auto* sequence =
      sub->add_option(
             "--sequence", run.sequence,
             "Continue a fork of this sequence (a handle as in ps). Default: a new sequence.")
          ->type_name("HANDLE");
  sub->add_option(
         "--from", run.snapshot,
         "Continue a fork of this snapshot (a name as in snapshots). Default: a new sequence.")
      ->type_name("NAME")
      ->excludes(sequence);
  sub->add_flag("--continue", run.continues,
                "Take no prompt and continue after the last token of --sequence or --from.");
  sub->add_flag("--resume", run.resumes,
                "Continue with the sampler and seed of the last generation, at its next draw.");
  auto* keep = sub->add_option("--keep", run.keep_as,
                               "Publish the result as a snapshot of this name, for --from. "
                               "Default: the result is not published.")
                   ->type_name("NAME");
  sub->add_flag("--force", run.replaces, "Replace the snapshot that has the name of --keep.")
      ->needs(keep);
  sub->add_option("--ttl", run.ttl_seconds,
                  "Time in seconds after which the snapshot of --keep is dropped. 0: it does not "
                  "expire. Default: 0. Range: 0 to 31536000.")
      ->type_name("SECONDS")
      ->check(CLI::Range(0u, wire::kTtlSecondsMax))
      ->needs(keep);
  sub->add_option("-n,--predict", run.predict_max,
                  "Maximum number of generated tokens. -1: until an end token. Default: -1. Range: "
                  "-1 to 1073741824.")
      ->type_name("N")
      ->check(CLI::Range(-1, 1 << 30));
  AddSamplingOptions(*sub, run);
  sub->add_option("-s,--seed", run.seed,
                  "Seed of the sampler. 0: a random seed, which --json reports. Default: 0. Range: "
                  "0 to 18446744073709551615.")
      ->type_name("N");
  sub->add_flag("--llama-draws", run.draws_as_llama,
                "Draw the tokens that llama.cpp draws with this seed (4294967296 for its seed 0).");
  sub->add_option("--stop", run.stops,
                  "Stop before this text. Can be given several times. Default: none.")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  auto* grammar =
      sub->add_option("--grammar", run.grammar_path,
                      "File with a grammar (GBNF) that holds the answer. Default: none.")
          ->type_name("FILE");
  sub->add_option("--schema", run.schema_path,
                  "File with a JSON Schema that holds the answer. Default: none.")
      ->type_name("FILE")
      ->excludes(grammar);
  sub->add_option("--grammar-trigger", run.triggers,
                  "Begin the grammar at this text of the answer. Can be given several times. "
                  "Default: at the start of the answer.")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  sub->add_option("--tool-format", run.tool_format,
                  "How the model writes calls of the --tools: hermes, llama3, mistral, ... "
                  "(docs/tool_calls.md). Default: what the template shows.")
      ->type_name("FORMAT");
  sub->add_option("--tool-choice", run.tool_choice,
                  "auto, required, none, or the name of the function to call. Default: auto.")
      ->type_name("CHOICE");
  sub->add_flag("--one-call", run.one_call, "Allow at most one call of a function in the answer.");
  sub->add_flag("--ignore-eos", run.ignores_eos, "Do not stop at end tokens.");
  sub->add_flag("--special", run.shows_special, "Show special tokens.");
  sub->add_flag("--no-prefix", run.is_apart, "Reuse no prefix of other sequences.");
}

void AddTextVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* tokenize = AddVerb(app, line, "tokenize", "Show the tokens of a text",
                               "tokenize --add-special 'Once upon a time'",
                               [&line] { return TokenizeText(line.global, line.text); });
  tokenize
      ->add_option_function<std::string>(
          "text",
          [&line](const std::string& text) {
            line.text.text = text;
            line.text.has_text = true;
          },
          "Text to tokenize. Default: read standard input.")
      ->type_name("TEXT");
  tokenize->add_flag("--add-special", line.text.adds_special, "Add the model's begin token.");
  tokenize->add_flag("--parse-special", line.text.parses_special,
                     "Read names of special tokens in the text as those tokens.");
  CLI::App* why =
      AddVerb(app, line, "why", "Show how much of a prompt could be reused, and why not more",
              "why 'Once upon a time'", [&line] { return ExplainPrompt(line.global, line.text); });
  why->add_option_function<std::string>(
         "prompt",
         [&line](const std::string& text) {
           line.text.text = text;
           line.text.has_text = true;
         },
         "Prompt to explain. Default: read standard input.")
      ->type_name("TEXT");
  why->add_flag("--parse-special", line.text.parses_special,
                "Read names of special tokens in the text as those tokens.");
  AddChatOptions(*why, line.text.chat, true);
  CLI::App* chat = AddVerb(app, line, "chat", "Show the text that a chat template makes of a chat",
                           "chat --messages chat.json --tools tools.json",
                           [&line] { return FormatChat(line.global, line.text); });
  chat->add_option_function<std::string>(
          "prompt",
          [&line](const std::string& text) {
            line.text.text = text;
            line.text.has_text = true;
          },
          "Message of a user. Default without --messages: read standard input.")
      ->type_name("TEXT");
  AddChatOptions(*chat, line.text.chat, false);
  CLI::App* shown =
      AddVerb(app, line, "template", "Show the model's chat template", "template tool_use",
              [&line] { return ShowTemplate(line.global, line.text); });
  shown
      ->add_option("name", line.text.text,
                   "Name of one of the model's further templates. Default: the default template.")
      ->type_name("NAME");
  CLI::App* embed = AddVerb(app, line, "embed", "Show the embeddings of texts, scaled to length 1",
                            "embed --pooling mean 'Once upon a time' 'The end'",
                            [&line] { return EmbedTexts(line.global, line.embed); });
  embed
      ->add_option("texts", line.embed.texts,
                   "Texts to embed. Default: standard input as one text.")
      ->type_name("TEXT");
  embed->add_flag("--lines", line.embed.by_line, "Take each line of standard input as a text.");
  embed
      ->add_option("--pooling", line.embed.pooling,
                   "none (a row for each token), mean, cls (the first token), last or rank (the "
                   "scores of a reranker). Default: what the model's file declares.")
      ->type_name("POOLING");
  embed->add_flag("--raw", line.embed.is_raw, "Do not scale rows to length 1.");
  CLI::App* rank = AddVerb(app, line, "rank", "Score documents for a query, best first (rerankers)",
                           "rank 'Who keeps the drum?' 'Tom keeps it.' 'The drum is red.'",
                           [&line] { return RankDocuments(line.global, line.rank); });
  rank->add_option("query", line.rank.query, "Query of the documents.")
      ->type_name("TEXT")
      ->required();
  rank->add_option("documents", line.rank.documents,
                   "Documents to score. Default: the lines of standard input.")
      ->type_name("TEXT");
}

}  // namespace kvd::kvctl
