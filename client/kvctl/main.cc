// kvctl: controls a kvd daemon from the command line. Exit status: 0: the verb succeeded; 1: the
// verb failed; 2: the command line is wrong.
//
// In kvctl, only this file uses CLI11. main parses the command line into the structs of options.h
// and then calls the function of the chosen verb.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "base/help_formatter.h"
#include "client/kvctl/commands.h"
#include "client/kvctl/json_output.h"
#include "client/kvctl/prompt_options.h"
#include "shm/sampling_params.h"
#include "shm/socket_address.h"
#include "shm/wire_check.h"

namespace {

using kvd::Status;
using namespace kvd::kvctl;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// All options of the command line, and the chosen verb.
struct CommandLine {
  GlobalOptions global;
  RunOptions run;
  SequenceOptions sequence;
  SnapshotOptions snapshot;
  SavedOptions saved;
  TextOptions text;
  EmbedOptions embed;
  RankOptions rank;
  PrefixOptions prefix;
  LlamaOptions llama;
  PingOptions ping;
  LifeOptions life;
  MapOptions map;
  bool info_wants_profile = false;
  std::int64_t timeout_ms = -1;
  std::function<Status()> verb;
};

// `example`: a command line of the verb, without the word kvctl. The help text of the verb ends
// with the example.
CLI::App* AddVerb(CLI::App& app, CommandLine& line, const char* name, const char* description,
                  const std::string& example, std::function<Status()> verb) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->footer("Example: kvctl " + example);
  sub->callback([&line, verb = std::move(verb)] { line.verb = verb; });
  return sub;
}

void AddRun(CLI::App& app, CommandLine& line) {
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
      ->check(CLI::Range(0u, kvd::wire::kTtlSecondsMax))
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

void AddSequenceVerbs(CLI::App& app, CommandLine& line) {
  SequenceOptions& options = line.sequence;
  const auto handle = [&options](CLI::App* sub) {
    sub->add_option("handle", options.handles, "Handles of sequences, as in ps.")
        ->type_name("HANDLE")
        ->required();
  };
  AddVerb(app, line, "ps", "List the sequences", "ps --json",
          [&line] { return ListSequences(line.global); });
  CLI::App* fork = AddVerb(app, line, "fork", "Fork a sequence (no cell is copied)",
                           "fork --count 2 --hold 4294967299",
                           [&line] { return ForkSequence(line.global, line.sequence); });
  fork->add_option("handle", options.handles, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required()
      ->expected(1);
  fork->add_option("-c,--count", options.fork_count,
                   "Number of forks. Default: 1. Range: 1 to 1024.")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  fork->add_option("--cells", options.cell_count,
                   "Number of first cells to fork. Default: all. Range: 0 to 2147483647.")
      ->type_name("N")
      ->check(CLI::Range(0, 0x7fffffff));
  fork->add_flag("--hold", options.holds, "Keep the forks until Ctrl-C.");
  CLI::App* rm = AddVerb(app, line, "rm", "Remove sequences", "rm 4294967299 4294967300",
                         [&line] { return RemoveSequences(line.global, line.sequence); });
  handle(rm);
  rm->add_flag("-f,--force", options.is_forced, "Act also on sequences of your other sessions.");
  AddVerb(app, line, "log", "Show a sequence's ancestors and their edits", "log 4294967299",
          [&line] { return ShowLog(line.global, line.sequence); })
      ->add_option("handle", options.handles, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required()
      ->expected(1);
  CLI::App* text = AddVerb(app, line, "text", "Show a sequence's text", "text --special 4294967299",
                           [&line] { return ShowText(line.global, line.sequence); });
  text->add_option("handle", options.handles, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required()
      ->expected(1);
  text->add_flag("--special", options.shows_special, "Show special tokens.");
}

void AddSnapshotVerbs(CLI::App& app, CommandLine& line) {
  SnapshotOptions& options = line.snapshot;
  CLI::App* publish = AddVerb(app, line, "publish", "Publish a sequence as a named snapshot",
                              "publish 4294967299 notes",
                              [&line] { return PublishSnapshot(line.global, line.snapshot); });
  publish->add_option("handle", options.handle, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required();
  publish->add_option("name", options.name, "Name of the snapshot.")->type_name("NAME")->required();
  publish->add_flag("--public", options.is_public,
                    "Let every user that may connect fork the snapshot.");
  publish
      ->add_option("--ttl", options.ttl_seconds,
                   "Time in seconds after which the snapshot is dropped. 0: it does not expire. "
                   "Default: 0. Range: 0 to 31536000.")
      ->type_name("SECONDS")
      ->check(CLI::Range(0u, kvd::wire::kTtlSecondsMax));
  publish->add_flag("--ephemeral", options.is_ephemeral,
                    "Let no prompt reuse the snapshot, except by a fork.");
  publish->add_flag("-f,--force", options.is_forced, "Replace a snapshot of that name.");
  CLI::App* attach = AddVerb(app, line, "attach", "Fork a snapshot", "attach --hold notes",
                             [&line] { return AttachSnapshot(line.global, line.snapshot); });
  attach->add_option("name", options.name, "Name of the snapshot.")->type_name("NAME")->required();
  attach->add_flag("--hold", options.holds, "Keep the fork until Ctrl-C.");
  CLI::App* unpublish = AddVerb(app, line, "unpublish", "Remove a snapshot", "unpublish notes",
                                [&line] { return UnpublishSnapshot(line.global, line.snapshot); });
  unpublish->add_option("name", options.name, "Name of the snapshot.")
      ->type_name("NAME")
      ->required();
  unpublish->add_flag("-f,--force", options.is_forced,
                      "Remove also a snapshot of your other sessions.");
  AddVerb(app, line, "snapshots", "List the snapshots", "snapshots --json",
          [&line] { return ListSnapshots(line.global); });
}

void AddSavedVerbs(CLI::App& app, CommandLine& line) {
  SavedOptions& options = line.saved;
  CLI::App* save =
      AddVerb(app, line, "save", "Save a sequence to a file of the daemon's store",
              "save 4294967299 notes", [&line] { return SaveSequence(line.global, line.saved); });
  save->add_option("handle", options.handle, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required();
  auto* name = save->add_option("name", options.name, "Name of the file.")->type_name("NAME");
  auto* size = save->add_flag("--size", options.size_only, "Print the size without saving.");
  name->excludes(size);
  save->add_flag("--no-logits", options.no_logits, "Leave out the last row of logits.");
  save->add_flag("--tokens-only", options.tokens_only,
                 "Save only the tokens: the file is small, but a load computes the tokens again.");
  save->add_flag("--unpacked", options.is_unpacked,
                 "Do not compress: the file is larger and written faster.");
  save->add_flag("--q8", options.q8_rows, "Convert keys and values to q8_0.");
  save->add_flag("-f,--force", options.is_forced, "Replace a file of that name.");
  CLI::App* load = AddVerb(app, line, "load", "Load the sequences of a saved file",
                           "load --publish latest notes",
                           [&line] { return LoadSequences(line.global, line.saved); });
  load->add_option("name", options.name, "Name of the file.")->type_name("NAME")->required();
  load->add_flag("--hold", options.holds, "Keep the sequences until Ctrl-C.");
  load->add_option(
          "--publish", options.publish_as,
          "Publish the first sequence as a snapshot of this name. Default: it is not published.")
      ->type_name("NAME");
  CLI::App* saved = AddVerb(app, line, "saved", "List the saved files", "saved --json",
                            [&line] { return ListSaved(line.global, line.saved); });
  saved->add_option("--rm", options.removed, "Remove this file instead. Default: none.")
      ->type_name("NAME");
}

void AddPrefixVerbs(CLI::App& app, CommandLine& line) {
  PrefixOptions& options = line.prefix;
  CLI::App* warm =
      AddVerb(app, line, "warm", "Compute a prompt in advance and retain it as a prefix",
              "warm --pin prompt.txt", [&line] { return WarmPrefix(line.global, line.prefix); });
  warm->add_option("file", options.file, "File with the prompt's text. -: standard input.")
      ->type_name("FILE")
      ->required();
  warm->add_flag("--parse-special", options.parses_special,
                 "Read names of special tokens in the text as those tokens.");
  warm->add_flag("--pin", options.is_pinned, "Never evict the sequence.");
  CLI::App* life =
      AddVerb(app, line, "life", "Set when sequences expire, and whether prompts may reuse them",
              "life 4294967299 --ttl 3600", [&line] { return SetLife(line.global, line.life); });
  life->add_option("handle", line.life.handles, "Handles of sequences, as in ps.")
      ->type_name("HANDLE")
      ->required();
  life->add_option("--ttl", line.life.ttl_seconds,
                   "Time in seconds after which the sequence is dropped. 0: it does not expire. "
                   "Default: 0. Range: 0 to 31536000.")
      ->type_name("SECONDS")
      ->check(CLI::Range(0u, kvd::wire::kTtlSecondsMax));
  life->add_flag("--ephemeral", line.life.is_ephemeral,
                 "Let no prompt reuse the sequence, and drop it when it is released.");
  life->add_flag("-f,--force", line.life.is_forced,
                 "Act also on sequences of your other sessions.");
  for (const bool is_pinned : {true, false}) {
    CLI::App* pin =
        AddVerb(app, line, is_pinned ? "pin" : "unpin",
                is_pinned ? "Protect sequences from eviction" : "End the protection from eviction",
                is_pinned ? "pin 4294967299" : "unpin 4294967299",
                [&line, is_pinned] { return PinSequences(line.global, line.prefix, is_pinned); });
    pin->add_option("handle", options.handles, "Handles of sequences, as in ps.")
        ->type_name("HANDLE")
        ->required();
    pin->add_flag("-f,--force", options.is_forced, "Act also on sequences of your other sessions.");
  }
  CLI::App* drop = AddVerb(app, line, "drop", "Drop retained sequences", "drop --retained",
                           [&line] { return DropSequences(line.global, line.prefix); });
  drop->add_flag("--retained", options.only_retained, "Drop all retained sequences of this user.")
      ->required();
  drop->add_flag("-f,--force", options.is_forced, "Drop also pinned sequences.");
}

void AddLlamaVerbs(CLI::App& app, CommandLine& line) {
  LlamaOptions& options = line.llama;
  CLI::App* import =
      AddVerb(app, line, "import", "Publish a sequence from a state file of llama.cpp",
              "import notes.bin notes", [&line] { return ImportFile(line.global, line.llama); });
  import->add_option("file", options.path, "Session file or sequence file.")
      ->type_name("FILE")
      ->required();
  import
      ->add_option("name", options.name,
                   "Name of the snapshot. Default: the file's name without extension.")
      ->type_name("NAME");
  import
      ->add_option(
          "--seq", options.sequence_id,
          "Id of a sequence in a session file. Default: the only sequence. Range: 0 to 2147483647.")
      ->type_name("N")
      ->check(CLI::Range(0, 0x7fffffff));
  import->add_flag("--unrotated", options.is_unrotated,
                   "Read a quantised file of a llama.cpp that does not rotate heads.");
  import->add_flag("-f,--force", options.is_forced, "Replace a snapshot of that name.");
  CLI::App* out = AddVerb(app, line, "export", "Write a sequence as a state file of llama.cpp",
                          "export 4294967299 notes.bin",
                          [&line] { return ExportFile(line.global, line.llama); });
  out->add_option("handle", options.handle, "Handle of a sequence, as in ps.")
      ->type_name("HANDLE")
      ->required();
  out->add_option("file", options.path, "Path of the file to write.")
      ->type_name("FILE")
      ->required();
  out->add_option(
         "--layout", options.layout,
         "2026: for llama.cpp of August 2026; 2025: for llama.cpp of February 2025. Default: 2026.")
      ->type_name("YEAR");
  out->add_flag("--session", options.is_session,
                "Write a session file instead of a sequence file.");
  out->add_flag("--v-transposed", options.is_v_transposed,
                "Write for llama.cpp without flash attention.");
  out->add_option("--streams", options.streams,
                  "Number of sequences of the reading context if its cache is not unified (layout "
                  "2026). Default: 1. Range: 1 to 256.")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  out->add_flag("--unrotated", options.is_unrotated,
                "Write for a reader with LLAMA_ATTN_ROT_DISABLE (layout 2026).");
  out->add_option(
         "--type-k", options.k_type,
         "Number type of the keys: f32, f16, bf16, q8_0 or q4_0. Default: that of the pool.")
      ->type_name("TYPE");
  out->add_option(
         "--type-v", options.v_type,
         "Number type of the values: f32, f16, bf16, q8_0 or q4_0. Default: that of the pool.")
      ->type_name("TYPE");
}

void AddDaemonVerbs(CLI::App& app, CommandLine& line) {
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
  CLI::App* info = AddVerb(
      app, line, "info", "Show the model, the pool and the daemon", "info --profile", [&line] {
        return line.info_wants_profile ? ShowProfile(line.global) : ShowInfo(line.global);
      });
  info->add_flag(
      "--profile", line.info_wants_profile,
      "Show how the time of steps is divided, for decode steps and for steps with prompts.");
  AddVerb(app, line, "defrag", "Pack the pool and settle sequences with many shifts", "defrag",
          [&line] { return Defragment(line.global); });
  AddVerb(app, line, "tenants", "List the tenants, their limits and what they hold", "tenants",
          [&line] { return ListTenants(line.global); });
  CLI::App* ping = AddVerb(app, line, "ping", "Measure round trips", "ping --count 100 --bytes 64",
                           [&line] { return PingDaemon(line.global, line.ping); });
  ping->add_option("-c,--count", line.ping.count,
                   "Number of round trips. Default: 10. Range: 1 to 1000000.")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  ping->add_option("--bytes", line.ping.payload_bytes,
                   "Size in bytes of the payload in each direction. Default: 0. Range: 0 to 4096.")
      ->type_name("BYTES")
      ->check(CLI::Range(0, 4096));
}

void AddMapVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* map = AddVerb(app, line, "map", "Show which sequences hold which cells", "map --svg",
                          [&line] { return ShowMap(line.global, line.map); });
  map->add_flag("--svg", line.map.wants_svg, "Print an SVG picture.");
  CLI::App* top =
      AddVerb(app, line, "top", "Show the map and the sessions' token rates until Ctrl-C",
              "top --period-ms 1000", [&line] { return ShowTop(line.global, line.map); });
  top->add_flag("--once", line.map.is_once, "Show it once.");
  top->add_option("--period-ms", line.map.period_ms,
                  "Time in milliseconds between two refreshes. Default: 500. Range: 50 to 60000.")
      ->type_name("MS")
      ->check(CLI::Range(50, 60'000));
}

void PrintError(const kvd::Error& error, bool wants_json) {
  const std::string code(kvd::CodeName(error.code));
  if (!wants_json) {
    std::fprintf(stderr, "kvctl: %s: %s\n", code.c_str(), error.message.c_str());
    return;
  }
  Json inner = Json::Object();
  inner.Set("code", code).Set("message", error.message);
  std::fprintf(stderr, "%s\n", Json::Object().Set("error", std::move(inner)).Text().c_str());
}

}  // namespace

int main(int argument_count, char** arguments) {
  // SIGPIPE keeps its default action, so a closed pipe (kvctl run ... | head) ends kvctl.
  CommandLine line;
  line.global.connect.client_name = "kvctl";
  CLI::App app("kvctl: talk to a kvd daemon", "kvctl");
  app.formatter(std::make_shared<kvd::HelpFormatter>());  // verbs inherit it
  app.require_subcommand(1);
  app.fallthrough();
  auto* socket = app.add_option("--socket", line.global.connect.socket_path,
                                "Path of the daemon's socket. Default: $KVD_SOCKET, else the path "
                                "that the name of the daemon gives.")
                     ->type_name("PATH");
  app.add_option(
         "--name", line.global.connect.daemon_name,
         "Name of the daemon, from which the default path of its socket is made. Default: default.")
      ->type_name("NAME")
      ->excludes(socket);
  app.add_option("--cache-salt", line.global.connect.cache_salt,
                 "Number that separates users: prompts reuse only sequences with the same number. "
                 "Default: 0. Range: 0 to 18446744073709551615.")
      ->type_name("N");
  app.add_option_function<std::string>(
         "--tenant",
         [&line](const std::string& digits) {
           const auto tenant = kvd::wire::ParseTenantId(digits);
           if (!tenant) throw CLI::ValidationError("--tenant", tenant.error().message);
           line.global.connect.tenant = *tenant;
         },
         "Tenant of this uid for which kvctl acts, as 32 hexadecimal digits. Default: the uid "
         "itself.")
      ->type_name("HEX");
  app.add_option(
         "--timeout-ms", line.timeout_ms,
         "Time in milliseconds after which a request that has no answer fails. Default: no limit.")
      ->type_name("MS");
  app.add_flag("--json", line.global.wants_json, "Print JSON.");
  AddRun(app, line);
  AddSequenceVerbs(app, line);
  AddSnapshotVerbs(app, line);
  AddSavedVerbs(app, line);
  AddPrefixVerbs(app, line);
  AddLlamaVerbs(app, line);
  AddDaemonVerbs(app, line);
  AddMapVerbs(app, line);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    app.exit(error);
    return kExitUsage;
  }
  line.global.connect.call_timeout = std::chrono::milliseconds(line.timeout_ms);
  const Status status = line.verb();
  if (status) return 0;
  PrintError(status.error(), line.global.wants_json);
  return kExitFailed;
}
