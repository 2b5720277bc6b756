// kvctl: controls a kvd daemon from the command line. Exit status: 0: the verb succeeded; 1: the
// verb failed; 2: the command line is wrong.
//
// In kvctl, only this file uses CLI11. main parses the command line into the structs of options.h
// and then calls the function of the chosen verb.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>

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
      "the prompt; default: read standard input");
  AddChatOptions(*sub, run.chat, true);
  auto* sequence = sub->add_option("--sequence", run.sequence,
                                   "continue a fork of this sequence (a handle as in ps)");
  sub->add_option("--from", run.snapshot,
                  "continue a fork of this snapshot (a name as in snapshots)")
      ->excludes(sequence);
  sub->add_flag("--continue", run.continues,
                "without a prompt: continue after the last token of --sequence or --from");
  sub->add_flag("--resume", run.resumes,
                "continue with the sampler and seed of the last generation, at its next draw");
  auto* keep = sub->add_option("--keep", run.keep_as,
                               "publish the result as a snapshot of this name, for --from");
  sub->add_flag("--force", run.replaces, "--keep replaces a snapshot of that name")->needs(keep);
  sub->add_option("-n,--predict", run.predict_max,
                  "maximum of generated tokens; -1: until an end token")
      ->check(CLI::Range(-1, 1 << 30));
  AddSamplingOptions(*sub, run);
  sub->add_option("-s,--seed", run.seed,
                  "seed of the sampler; 0: a random one, reported with --json");
  sub->add_flag("--llama-draws", run.draws_as_llama,
                "draw the tokens that llama.cpp draws with this seed (4294967296 for its seed 0)");
  sub->add_option("--stop", run.stops, "stop before this text; may be repeated")
      ->allow_extra_args(false);
  auto* grammar = sub->add_option("--grammar", run.grammar_path,
                                  "file with a grammar (GBNF) that holds the answer");
  sub->add_option("--schema", run.schema_path, "file with a JSON Schema that holds the answer")
      ->excludes(grammar);
  sub->add_option("--grammar-trigger", run.triggers,
                  "the grammar begins at this text of the answer; may be repeated")
      ->allow_extra_args(false);
  sub->add_option(
      "--tool-format", run.tool_format,
      "how the model writes calls of the --tools (hermes, llama3, mistral, ...); default: "
      "what the template shows");
  sub->add_option("--tool-choice", run.tool_choice,
                  "auto, required, none, or the name of the function to call [auto]");
  sub->add_flag("--one-call", run.one_call, "the answer has at most one call of a function");
  sub->add_flag("--ignore-eos", run.ignores_eos, "do not stop at end tokens");
  sub->add_flag("--special", run.shows_special, "show special tokens");
  sub->add_flag("--no-prefix", run.is_apart, "reuse no prefix of other sequences");
}

void AddSequenceVerbs(CLI::App& app, CommandLine& line) {
  SequenceOptions& options = line.sequence;
  const auto handle = [&options](CLI::App* sub) {
    sub->add_option("handle", options.handles, "handle of a sequence, as in ps")->required();
  };
  AddVerb(app, line, "ps", "List the sequences", "ps --json",
          [&line] { return ListSequences(line.global); });
  CLI::App* fork = AddVerb(app, line, "fork", "Fork a sequence (no cell is copied)",
                           "fork --count 2 --hold 4294967299",
                           [&line] { return ForkSequence(line.global, line.sequence); });
  fork->add_option("handle", options.handles, "handle of a sequence, as in ps")
      ->required()
      ->expected(1);
  fork->add_option("-c,--count", options.fork_count, "number of forks [1]")
      ->check(CLI::Range(1, 1024));
  fork->add_option("--cells", options.cell_count,
                   "fork only this number of first cells; default: all")
      ->check(CLI::Range(0, 0x7fffffff));
  fork->add_flag("--hold", options.holds, "keep the forks until Ctrl-C");
  CLI::App* rm = AddVerb(app, line, "rm", "Remove sequences", "rm 4294967299 4294967300",
                         [&line] { return RemoveSequences(line.global, line.sequence); });
  handle(rm);
  rm->add_flag("-f,--force", options.is_forced, "also sequences of your other sessions");
  AddVerb(app, line, "log", "Show a sequence's ancestors and their edits", "log 4294967299",
          [&line] { return ShowLog(line.global, line.sequence); })
      ->add_option("handle", options.handles, "handle of a sequence, as in ps")
      ->required()
      ->expected(1);
  CLI::App* text = AddVerb(app, line, "text", "Show a sequence's text", "text --special 4294967299",
                           [&line] { return ShowText(line.global, line.sequence); });
  text->add_option("handle", options.handles, "handle of a sequence, as in ps")
      ->required()
      ->expected(1);
  text->add_flag("--special", options.shows_special, "show special tokens");
}

void AddSnapshotVerbs(CLI::App& app, CommandLine& line) {
  SnapshotOptions& options = line.snapshot;
  CLI::App* publish = AddVerb(app, line, "publish", "Publish a sequence as a named snapshot",
                              "publish 4294967299 notes",
                              [&line] { return PublishSnapshot(line.global, line.snapshot); });
  publish->add_option("handle", options.handle, "handle of a sequence, as in ps")->required();
  publish->add_option("name", options.name, "the snapshot's name")->required();
  publish->add_flag("--public", options.is_public, "let every user that may connect fork it");
  publish->add_flag("-f,--force", options.is_forced, "replace a snapshot of that name");
  CLI::App* attach = AddVerb(app, line, "attach", "Fork a snapshot", "attach --hold notes",
                             [&line] { return AttachSnapshot(line.global, line.snapshot); });
  attach->add_option("name", options.name, "the snapshot's name")->required();
  attach->add_flag("--hold", options.holds, "keep the fork until Ctrl-C");
  CLI::App* unpublish = AddVerb(app, line, "unpublish", "Remove a snapshot", "unpublish notes",
                                [&line] { return UnpublishSnapshot(line.global, line.snapshot); });
  unpublish->add_option("name", options.name, "the snapshot's name")->required();
  unpublish->add_flag("-f,--force", options.is_forced, "also a snapshot of your other sessions");
  AddVerb(app, line, "snapshots", "List the snapshots", "snapshots --json",
          [&line] { return ListSnapshots(line.global); });
}

void AddSavedVerbs(CLI::App& app, CommandLine& line) {
  SavedOptions& options = line.saved;
  CLI::App* save =
      AddVerb(app, line, "save", "Save a sequence to a file of the daemon's store",
              "save 4294967299 notes", [&line] { return SaveSequence(line.global, line.saved); });
  save->add_option("handle", options.handle, "handle of a sequence, as in ps")->required();
  auto* name = save->add_option("name", options.name, "name of the file");
  auto* size = save->add_flag("--size", options.size_only, "print the size without saving");
  name->excludes(size);
  save->add_flag("--no-logits", options.no_logits, "without the last row of logits");
  save->add_flag("--tokens-only", options.tokens_only,
                 "save only tokens: small, but load computes them again");
  save->add_flag("--unpacked", options.is_unpacked, "without compression: larger and faster");
  save->add_flag("--q8", options.q8_rows, "convert keys and values to q8_0");
  save->add_flag("-f,--force", options.is_forced, "replace a file of that name");
  CLI::App* load = AddVerb(app, line, "load", "Load the sequences of a saved file",
                           "load --publish latest notes",
                           [&line] { return LoadSequences(line.global, line.saved); });
  load->add_option("name", options.name, "name of the file")->required();
  load->add_flag("--hold", options.holds, "keep the sequences until Ctrl-C");
  load->add_option("--publish", options.publish_as, "publish the first sequence as this snapshot");
  CLI::App* saved = AddVerb(app, line, "saved", "List the saved files", "saved --json",
                            [&line] { return ListSaved(line.global, line.saved); });
  saved->add_option("--rm", options.removed, "remove this file instead");
}

void AddPrefixVerbs(CLI::App& app, CommandLine& line) {
  PrefixOptions& options = line.prefix;
  CLI::App* warm =
      AddVerb(app, line, "warm", "Compute a prompt in advance and retain it as a prefix",
              "warm --pin prompt.txt", [&line] { return WarmPrefix(line.global, line.prefix); });
  warm->add_option("file", options.file, "file with the prompt's text; -: standard input")
      ->required();
  warm->add_flag("--parse-special", options.parses_special,
                 "read names of special tokens in the text as those tokens");
  warm->add_flag("--pin", options.is_pinned, "never evict the sequence");
  CLI::App* life =
      AddVerb(app, line, "life", "Set when sequences expire, and whether prompts may reuse them",
              "life 4294967299 --ttl 3600", [&line] { return SetLife(line.global, line.life); });
  life->add_option("handle", line.life.handles, "handle of a sequence, as in ps")->required();
  life->add_option("--ttl", line.life.ttl_seconds,
                   "seconds after which the sequence is dropped; 0: it does not expire [0]")
      ->check(CLI::Range(0u, kvd::wire::kTtlSecondsMax));
  life->add_flag("--ephemeral", line.life.is_ephemeral,
                 "no prompt reuses the sequence, and it is dropped when it is released");
  life->add_flag("-f,--force", line.life.is_forced, "also sequences of your other sessions");
  for (const bool is_pinned : {true, false}) {
    CLI::App* pin =
        AddVerb(app, line, is_pinned ? "pin" : "unpin",
                is_pinned ? "Protect sequences from eviction" : "End the protection from eviction",
                is_pinned ? "pin 4294967299" : "unpin 4294967299",
                [&line, is_pinned] { return PinSequences(line.global, line.prefix, is_pinned); });
    pin->add_option("handle", options.handles, "handle of a sequence, as in ps")->required();
    pin->add_flag("-f,--force", options.is_forced, "also sequences of your other sessions");
  }
  CLI::App* drop = AddVerb(app, line, "drop", "Drop retained sequences", "drop --retained",
                           [&line] { return DropSequences(line.global, line.prefix); });
  drop->add_flag("--retained", options.only_retained, "all retained sequences of this user")
      ->required();
  drop->add_flag("-f,--force", options.is_forced, "also pinned sequences");
}

void AddLlamaVerbs(CLI::App& app, CommandLine& line) {
  LlamaOptions& options = line.llama;
  CLI::App* import =
      AddVerb(app, line, "import", "Publish a sequence from a state file of llama.cpp",
              "import notes.bin notes", [&line] { return ImportFile(line.global, line.llama); });
  import->add_option("file", options.path, "a session or sequence file")->required();
  import->add_option("name", options.name,
                     "name of the snapshot [the file's name without extension]");
  import->add_option("--seq", options.sequence_id, "id of a sequence in a session file")
      ->check(CLI::Range(0, 0x7fffffff));
  import->add_flag("--unrotated", options.is_unrotated,
                   "for a quantised file of a llama.cpp that does not rotate heads");
  import->add_flag("-f,--force", options.is_forced, "replace a snapshot of that name");
  CLI::App* out = AddVerb(app, line, "export", "Write a sequence as a state file of llama.cpp",
                          "export 4294967299 notes.bin",
                          [&line] { return ExportFile(line.global, line.llama); });
  out->add_option("handle", options.handle, "handle of a sequence, as in ps")->required();
  out->add_option("file", options.path, "path of the file")->required();
  out->add_option("--layout", options.layout,
                  "2026: for llama.cpp of August 2026; 2025: of February 2025 [2026]");
  out->add_flag("--session", options.is_session, "write a session file instead of a sequence file");
  out->add_flag("--v-transposed", options.is_v_transposed, "for llama.cpp without flash attention");
  out->add_option("--streams", options.streams,
                  "layout 2026: sequences of the reading context if its cache is not unified [1]")
      ->check(CLI::Range(1, 256));
  out->add_flag("--unrotated", options.is_unrotated,
                "layout 2026: for a reader with LLAMA_ATTN_ROT_DISABLE");
  out->add_option("--type-k", options.k_type,
                  "type of keys: f32, f16, bf16, q8_0 or q4_0 [the pool's]");
  out->add_option("--type-v", options.v_type,
                  "type of values: f32, f16, bf16, q8_0 or q4_0 [the pool's]");
}

void AddDaemonVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* tokenize = AddVerb(app, line, "tokenize", "Show the tokens of a text",
                               "tokenize --add-special 'Once upon a time'",
                               [&line] { return TokenizeText(line.global, line.text); });
  tokenize->add_option_function<std::string>(
      "text",
      [&line](const std::string& text) {
        line.text.text = text;
        line.text.has_text = true;
      },
      "the text; default: read standard input");
  tokenize->add_flag("--add-special", line.text.adds_special, "add the model's begin token");
  tokenize->add_flag("--parse-special", line.text.parses_special,
                     "read names of special tokens in the text as those tokens");
  CLI::App* why =
      AddVerb(app, line, "why", "Show how much of a prompt could be reused, and why not more",
              "why 'Once upon a time'", [&line] { return ExplainPrompt(line.global, line.text); });
  why->add_option_function<std::string>(
      "prompt",
      [&line](const std::string& text) {
        line.text.text = text;
        line.text.has_text = true;
      },
      "the prompt; default: read standard input");
  why->add_flag("--parse-special", line.text.parses_special,
                "read names of special tokens in the prompt as those tokens");
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
      "a user's message; default without --messages: read standard input");
  AddChatOptions(*chat, line.text.chat, false);
  CLI::App* shown =
      AddVerb(app, line, "template", "Show the model's chat template", "template tool_use",
              [&line] { return ShowTemplate(line.global, line.text); });
  shown->add_option("name", line.text.text,
                    "name of one of the model's further templates; default: the default template");
  CLI::App* embed = AddVerb(app, line, "embed", "Show the embeddings of texts, scaled to length 1",
                            "embed --pooling mean 'Once upon a time' 'The end'",
                            [&line] { return EmbedTexts(line.global, line.embed); });
  embed->add_option("texts", line.embed.texts, "the texts; default: standard input as one text");
  embed->add_flag("--lines", line.embed.by_line, "each line of standard input is a text");
  embed->add_option("--pooling", line.embed.pooling,
                    "none (a row for each token), mean, cls (the first token), last or rank (the "
                    "scores of a reranker); default: what the model's file declares");
  embed->add_flag("--raw", line.embed.is_raw, "do not scale rows to length 1");
  CLI::App* rank = AddVerb(app, line, "rank", "Score documents for a query, best first (rerankers)",
                           "rank 'Who keeps the drum?' 'Tom keeps it.' 'The drum is red.'",
                           [&line] { return RankDocuments(line.global, line.rank); });
  rank->add_option("query", line.rank.query, "the query")->required();
  rank->add_option("documents", line.rank.documents,
                   "the documents; default: the lines of standard input");
  CLI::App* info = AddVerb(
      app, line, "info", "Show the model, the pool and the daemon", "info --profile", [&line] {
        return line.info_wants_profile ? ShowProfile(line.global) : ShowInfo(line.global);
      });
  info->add_flag(
      "--profile", line.info_wants_profile,
      "show how the time of steps is divided, for decode steps and for steps with prompts");
  AddVerb(app, line, "defrag", "Pack the pool and settle sequences with many shifts", "defrag",
          [&line] { return Defragment(line.global); });
  AddVerb(app, line, "tenants", "List the tenants, their limits and what they hold", "tenants",
          [&line] { return ListTenants(line.global); });
  CLI::App* ping = AddVerb(app, line, "ping", "Measure round trips", "ping --count 100 --bytes 64",
                           [&line] { return PingDaemon(line.global, line.ping); });
  ping->add_option("-c,--count", line.ping.count, "number of round trips [10]")
      ->check(CLI::Range(1, 1'000'000));
  ping->add_option("--bytes", line.ping.payload_bytes, "payload in each direction [0]")
      ->check(CLI::Range(0, 4096));
}

void AddMapVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* map = AddVerb(app, line, "map", "Show which sequences hold which cells", "map --svg",
                          [&line] { return ShowMap(line.global, line.map); });
  map->add_flag("--svg", line.map.wants_svg, "print an SVG picture");
  CLI::App* top =
      AddVerb(app, line, "top", "Show the map and the sessions' token rates until Ctrl-C",
              "top --period-ms 1000", [&line] { return ShowTop(line.global, line.map); });
  top->add_flag("--once", line.map.is_once, "show it once");
  top->add_option("--period-ms", line.map.period_ms, "time between two refreshes [500]")
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
  app.require_subcommand(1);
  app.fallthrough();
  auto* socket = app.add_option("--socket", line.global.connect.socket_path,
                                "the daemon's socket [$KVD_SOCKET]");
  app.add_option("--name", line.global.connect.daemon_name,
                 "the daemon's name, for the default socket path")
      ->excludes(socket);
  app.add_option("--cache-salt", line.global.connect.cache_salt,
                 "a number; prompts reuse only sequences with the same salt [0]");
  app.add_option_function<std::string>(
         "--tenant",
         [&line](const std::string& digits) {
           const auto tenant = kvd::wire::ParseTenantId(digits);
           if (!tenant) throw CLI::ValidationError("--tenant", tenant.error().message);
           line.global.connect.tenant = *tenant;
         },
         "the tenant of this uid to act for, 32 hexadecimal digits [the uid itself]")
      ->type_name("HEX");
  app.add_option("--timeout-ms", line.timeout_ms, "timeout of each request; default: no limit");
  app.add_flag("--json", line.global.wants_json, "print JSON");
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
