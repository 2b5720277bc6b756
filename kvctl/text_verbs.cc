// The verbs that take a text: run, tokenize, why, chat, template, embed, rank.
#include <array>
#include <cstdint>
#include <string>

#include "base/flag.h"
#include "kvctl/command_line.h"
#include "kvctl/commands.h"
#include "kvctl/prompt_options.h"
#include "shm/wire_messages.h"

namespace kvd::kvctl {
namespace {

Status TakePrompt(CommandLine& line, const FlagValue& value) {
  line.run.prompt = value.text;
  line.run.has_prompt = true;
  return {};
}

Status TakeTextToRead(CommandLine& line, const FlagValue& value) {
  line.text.text = value.text;
  line.text.has_text = true;
  return {};
}

constexpr auto kRunTopics =
    std::to_array<FlagTopic<CommandLine>>({{"Chat", kRunChatFlags}, {"Sampling", kSamplingFlags}});
constexpr auto kWhyTopics = std::to_array<FlagTopic<CommandLine>>({{"Chat", kWhyChatFlags}});
constexpr auto kChatTopics = std::to_array<FlagTopic<CommandLine>>({{"Chat", kChatVerbFlags}});

constexpr auto kRunFlags = std::to_array<Flag<CommandLine>>({
    {.names = "prompt",
     .help = "Text to continue. Default: read standard input.",
     .take = TakePrompt},
    {.names = "--sequence",
     .argument = "HANDLE",
     .help = "Continue a fork of this sequence (a handle as in ps, or the name of a snapshot). "
             "Default: a new sequence.",
     .take = TakeText<&CommandLine::run, &RunOptions::sequence>,
     .excludes = "--from"},
    {.names = "--from",
     .argument = "NAME",
     .help = "Continue a fork of this snapshot (a name as in snapshots). Default: a new sequence.",
     .take = TakeText<&CommandLine::run, &RunOptions::snapshot>,
     .excludes = "--sequence"},
    ParseSpecialFlag(TakeSwitch<&CommandLine::run, &RunOptions::parses_special>, "--chat"),
    SwitchFlag("--continue",
               "Take no prompt and continue after the last token of --sequence or --from.",
               TakeSwitch<&CommandLine::run, &RunOptions::continues>),
    SwitchFlag("--resume",
               "Continue with the sampler and seed of the last generation, at its next draw.",
               TakeSwitch<&CommandLine::run, &RunOptions::resumes>),
    ValueFlag("--keep", "NAME",
              "Publish the result as a snapshot of this name, for --from. "
              "Default: the result is not published.",
              TakeText<&CommandLine::run, &RunOptions::keep_as>),
    {.names = "--force",
     .help = "Replace the snapshot that has the name of --keep.",
     .take = TakeSwitch<&CommandLine::run, &RunOptions::replaces>,
     .needs = "--keep"},
    {.names = "--ttl",
     .argument = "SECONDS",
     .help = "Time in seconds after which the snapshot of --keep is dropped. 0: it does not "
             "expire. Default: 0. Range: 0 to 31536000.",
     .take = TakeNumber<0, wire::kTtlSecondsMax, &CommandLine::run, &RunOptions::ttl_seconds>,
     .needs = "--keep"},
    ValueFlag("-n --predict", "N",
              "Maximum number of generated tokens. -1: until an end token. Default: -1. Range: "
              "-1 to 1073741824.",
              TakeNumber<-1, 1 << 30, &CommandLine::run, &RunOptions::predict_max>),
    ValueFlag("--room-wait", "MS",
              "Time in milliseconds for which the request waits for room in the pool while no "
              "request of this user progresses. 0: as the daemon's --room-wait-ms says. -1: it "
              "does not wait. Default: 0. Range: -1 to 86400000.",
              TakeNumber<-1, 86'400'000, &CommandLine::run, &RunOptions::room_wait_ms>),
    ValueFlag("-s --seed", "N",
              "Seed of the sampler. 0: a random seed, which --json reports. Default: 0. Range: "
              "0 to 18446744073709551615.",
              TakeUnsigned<&CommandLine::run, &RunOptions::seed>),
    SwitchFlag("--llama-draws",
               "Draw the tokens that llama.cpp draws with this seed (4294967296 for its seed 0).",
               TakeSwitch<&CommandLine::run, &RunOptions::draws_as_llama>),
    ValueFlag("--stop", "TEXT", "Stop before this text. Can be given several times. Default: none.",
              TakeMore<&CommandLine::run, &RunOptions::stops>),
    {.names = "--grammar",
     .argument = "FILE",
     .help = "File with a grammar (GBNF) that holds the answer. Default: none.",
     .take = TakeText<&CommandLine::run, &RunOptions::grammar_path>,
     .excludes = "--schema"},
    {.names = "--schema",
     .argument = "FILE",
     .help = "File with a JSON Schema that holds the answer. Default: none.",
     .take = TakeText<&CommandLine::run, &RunOptions::schema_path>,
     .excludes = "--grammar"},
    ValueFlag("--grammar-trigger", "TEXT",
              "Begin the grammar at this text of the answer. Can be given several times. "
              "Default: at the start of the answer.",
              TakeMore<&CommandLine::run, &RunOptions::triggers>),
    ValueFlag("--tool-format", "FORMAT",
              "How the model writes calls of the --tools: hermes, llama3, mistral, ... "
              "(docs/tool_calls.md). Default: what the template shows.",
              TakeText<&CommandLine::run, &RunOptions::tool_format>),
    ValueFlag("--tool-choice", "CHOICE",
              "auto, required, none, or the name of the function to call. Default: auto.",
              TakeText<&CommandLine::run, &RunOptions::tool_choice>),
    SwitchFlag("--one-call", "Allow at most one call of a function in the answer.",
               TakeSwitch<&CommandLine::run, &RunOptions::one_call>),
    SwitchFlag("--ignore-eos", "Do not stop at end tokens.",
               TakeSwitch<&CommandLine::run, &RunOptions::ignores_eos>),
    SwitchFlag("--special", "Show special tokens.",
               TakeSwitch<&CommandLine::run, &RunOptions::shows_special>),
    SwitchFlag("--no-prefix", "Reuse no prefix of other sequences.",
               TakeSwitch<&CommandLine::run, &RunOptions::is_apart>),
});

constexpr auto kTokenizeFlags = std::to_array<Flag<CommandLine>>({
    {.names = "text",
     .help = "Text to tokenize. Default: read standard input.",
     .take = TakeTextToRead},
    SwitchFlag("--add-special", "Add the model's begin token.",
               TakeSwitch<&CommandLine::text, &TextOptions::adds_special>),
    ParseSpecialFlag(TakeSwitch<&CommandLine::text, &TextOptions::parses_special>),
});

constexpr auto kWhyFlags = std::to_array<Flag<CommandLine>>({
    {.names = "prompt",
     .help = "Prompt to explain. Default: read standard input.",
     .take = TakeTextToRead},
    ParseSpecialFlag(TakeSwitch<&CommandLine::text, &TextOptions::parses_special>, "--chat"),
});

constexpr auto kChatFlags = std::to_array<Flag<CommandLine>>({
    {.names = "prompt",
     .help = "Message of a user. Default without --messages: read standard input.",
     .take = TakeTextToRead},
});

constexpr auto kTemplateFlags = std::to_array<Flag<CommandLine>>({
    {.names = "name",
     .help = "Name of one of the model's further templates. Default: the default template.",
     .take = TakeText<&CommandLine::text, &TextOptions::text>},
});

constexpr auto kEmbedFlags = std::to_array<Flag<CommandLine>>({
    {.names = "texts",
     .help = "Texts to embed. Default: standard input as one text.",
     .take = TakeMore<&CommandLine::embed, &EmbedOptions::texts>,
     .is_list = true},
    SwitchFlag("--lines", "Take each line of standard input as a text.",
               TakeSwitch<&CommandLine::embed, &EmbedOptions::by_line>),
    ValueFlag("--pooling", "POOLING",
              "none (a row for each token), mean, cls (the first token), last or rank (the "
              "scores of a reranker). Default: what the model's file declares.",
              TakeText<&CommandLine::embed, &EmbedOptions::pooling>),
    SwitchFlag("--raw", "Do not scale rows to length 1.",
               TakeSwitch<&CommandLine::embed, &EmbedOptions::is_raw>),
});

constexpr auto kRankFlags = std::to_array<Flag<CommandLine>>({
    {.names = "query",
     .help = "Query of the documents.",
     .take = TakeText<&CommandLine::rank, &RankOptions::query>,
     .is_required = true},
    {.names = "documents",
     .help = "Documents to score. Default: the lines of standard input.",
     .take = TakeMore<&CommandLine::rank, &RankOptions::documents>,
     .is_list = true},
});

constexpr auto kRunVerbs = std::to_array<CommandRow>({
    {.name = "run",
     .description = "Continue a prompt and print the text as it is generated",
     .example = "run --chat -n 64 'Why is the sky blue?'",
     .run = [](const CommandLine& line) { return Run(line.global, line.run); },
     .flags = kRunFlags,
     .topics = kRunTopics},
});

constexpr auto kTextVerbs = std::to_array<CommandRow>({
    {.name = "tokenize",
     .description = "Show the tokens of a text",
     .example = "tokenize --add-special 'Once upon a time'",
     .run = [](const CommandLine& line) { return TokenizeText(line.global, line.text); },
     .flags = kTokenizeFlags},
    {.name = "why",
     .description = "Show how much of a prompt could be reused, and why not more",
     .example = "why 'Once upon a time'",
     .run = [](const CommandLine& line) { return ExplainPrompt(line.global, line.text); },
     .flags = kWhyFlags,
     .topics = kWhyTopics},
    {.name = "chat",
     .description = "Show the text that a chat template makes of a chat",
     .example = "chat --messages chat.json --tools tools.json",
     .run = [](const CommandLine& line) { return FormatChat(line.global, line.text); },
     .flags = kChatFlags,
     .topics = kChatTopics},
    {.name = "template",
     .description = "Show the model's chat template",
     .example = "template tool_use",
     .run = [](const CommandLine& line) { return ShowTemplate(line.global, line.text); },
     .flags = kTemplateFlags},
    {.name = "embed",
     .description = "Show the embeddings of texts, scaled to length 1",
     .example = "embed --pooling mean 'Once upon a time' 'The end'",
     .run = [](const CommandLine& line) { return EmbedTexts(line.global, line.embed); },
     .flags = kEmbedFlags},
    {.name = "rank",
     .description = "Score documents for a query, best first (rerankers)",
     .example = "rank 'Who keeps the drum?' 'Tom keeps it.' 'The drum is red.'",
     .run = [](const CommandLine& line) { return RankDocuments(line.global, line.rank); },
     .flags = kRankFlags},
});

}  // namespace

std::span<const CommandRow> RunVerbs() { return kRunVerbs; }
std::span<const CommandRow> TextVerbs() { return kTextVerbs; }

}  // namespace kvd::kvctl
