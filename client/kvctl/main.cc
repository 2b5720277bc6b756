// kvctl: a kvd daemon from the command line. Exit codes: 0 done, 1 failed, 2 usage.
//
// The only place that meets CLI11. Parsing fills option structs; the chosen verb runs afterwards.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "client/kvctl/json_output.h"
#include "client/kvctl/verbs.h"
#include "shm/socket_address.h"

namespace {

using kvd::Status;
using namespace kvd::kvctl;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Everything the command line can say, and the verb that it chose.
struct CommandLine {
  GlobalOptions global;
  RunOptions run;
  SequenceOptions sequence;
  SnapshotOptions snapshot;
  SavedOptions saved;
  TextOptions text;
  EmbedOptions embed;
  PrefixOptions prefix;
  LlamaOptions llama;
  PingOptions ping;
  MapOptions map;
  bool info_wants_profile = false;
  std::int64_t timeout_ms = -1;
  std::function<Status()> verb;
};

CLI::App* AddVerb(CLI::App& app, CommandLine& line, const char* name, const char* description,
                  std::function<Status()> verb) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->callback([&line, verb = std::move(verb)] { line.verb = verb; });
  return sub;
}

void AddRun(CLI::App& app, CommandLine& line) {
  RunOptions& run = line.run;
  CLI::App* sub =
      AddVerb(app, line, "run", "Continue a prompt; the text streams to standard output",
              [&line] { return Run(line.global, line.run); });
  sub->add_option_function<std::string>(
      "prompt",
      [&run](const std::string& text) {
        run.prompt = text;
        run.has_prompt = true;
      },
      "the prompt; standard input without it");
  auto* chat = sub->add_flag("--chat", run.is_chat,
                             "the prompt is a user's message: use the model's chat template");
  sub->add_option("--system", run.system, "the system message")->needs(chat);
  auto* sequence = sub->add_option("--sequence", run.sequence,
                                   "go on behind this sequence (a fork of it; see ps)");
  sub->add_option("--from", run.snapshot, "go on behind this snapshot (see snapshots)")
      ->excludes(sequence);
  sub->add_flag("--continue", run.continues,
                "no prompt: go on from the last token of --sequence or --from");
  sub->add_flag("--resume", run.resumes,
                "with the sampler and the seed that drew the last tokens, from the next draw on");
  auto* keep =
      sub->add_option("--keep", run.keep_as, "publish the result as this snapshot, for --from");
  sub->add_flag("--force", run.replaces, "--keep replaces a snapshot of that name")->needs(keep);
  sub->add_option("-n,--predict", run.predict_max,
                  "tokens to predict at most; -1: until the model ends")
      ->check(CLI::Range(-1, 1 << 30));
  sub->add_option("-t,--temp", run.sampling.temperature, "temperature; 0: greedy [0.8]");
  sub->add_option("--top-k", run.sampling.top_k, "0: off [40]");
  sub->add_option("--top-p", run.sampling.top_p, "1: off [0.95]");
  sub->add_option("--min-p", run.sampling.min_p, "0: off [0.05]");
  sub->add_option("--typical", run.sampling.typical_p, "1: off [1]");
  sub->add_option("--repeat-penalty", run.sampling.repeat_penalty, "1: off [1]");
  sub->add_option("--repeat-last-n", run.sampling.repeat_last,
                  "tokens that penalties look back at; -1: all [64]");
  sub->add_option("--presence-penalty", run.sampling.presence_penalty, "0: off [0]");
  sub->add_option("--frequency-penalty", run.sampling.frequency_penalty, "0: off [0]");
  sub->add_option("-s,--seed", run.seed, "0: a fresh one, reported with --json");
  sub->add_option("--stop", run.stops, "end before this text (may be given more than once)")
      ->allow_extra_args(false);
  sub->add_flag("--ignore-eos", run.ignores_eos, "never end by the model's own choice");
  sub->add_flag("--special", run.shows_special, "show special tokens");
  sub->add_flag("--no-prefix", run.is_apart, "take nothing of the prompt from other sequences");
}

void AddSequenceVerbs(CLI::App& app, CommandLine& line) {
  SequenceOptions& options = line.sequence;
  const auto handle = [&options](CLI::App* sub) {
    sub->add_option("handle", options.handles, "a sequence, as ps shows it")->required();
  };
  AddVerb(app, line, "ps", "List the sequences", [&line] { return ListSequences(line.global); });
  CLI::App* fork = AddVerb(app, line, "fork", "Fork a sequence (no cell is copied)",
                           [&line] { return ForkSequence(line.global, line.sequence); });
  fork->add_option("handle", options.handles, "a sequence, as ps shows it")
      ->required()
      ->expected(1);
  fork->add_option("-c,--count", options.fork_count, "how many")->check(CLI::Range(1, 1024));
  fork->add_option("--cells", options.cell_count, "its first so many cells only")
      ->check(CLI::Range(0, 0x7fffffff));
  fork->add_flag("--hold", options.holds, "keep them until Ctrl-C");
  CLI::App* rm = AddVerb(app, line, "rm", "Remove sequences",
                         [&line] { return RemoveSequences(line.global, line.sequence); });
  handle(rm);
  rm->add_flag("-f,--force", options.is_forced, "also those that another session uses");
  AddVerb(app, line, "log", "Show what a sequence was forked from and how it was edited",
          [&line] { return ShowLog(line.global, line.sequence); })
      ->add_option("handle", options.handles, "a sequence, as ps shows it")
      ->required()
      ->expected(1);
  CLI::App* text = AddVerb(app, line, "text", "Show a sequence's text",
                           [&line] { return ShowText(line.global, line.sequence); });
  text->add_option("handle", options.handles, "a sequence, as ps shows it")
      ->required()
      ->expected(1);
  text->add_flag("--special", options.shows_special, "show special tokens");
}

void AddSnapshotVerbs(CLI::App& app, CommandLine& line) {
  SnapshotOptions& options = line.snapshot;
  CLI::App* publish = AddVerb(app, line, "publish", "Publish a sequence as a named snapshot",
                              [&line] { return PublishSnapshot(line.global, line.snapshot); });
  publish->add_option("handle", options.handle, "a sequence, as ps shows it")->required();
  publish->add_option("name", options.name, "the snapshot's name")->required();
  publish->add_flag("--public", options.is_public, "for every user that may connect");
  publish->add_flag("-f,--force", options.is_forced, "replace a snapshot of that name");
  CLI::App* attach = AddVerb(app, line, "attach", "Fork a snapshot",
                             [&line] { return AttachSnapshot(line.global, line.snapshot); });
  attach->add_option("name", options.name, "the snapshot's name")->required();
  attach->add_flag("--hold", options.holds, "keep the fork until Ctrl-C");
  CLI::App* unpublish = AddVerb(app, line, "unpublish", "Take a snapshot's name away",
                                [&line] { return UnpublishSnapshot(line.global, line.snapshot); });
  unpublish->add_option("name", options.name, "the snapshot's name")->required();
  unpublish->add_flag("-f,--force", options.is_forced, "also one that another session published");
  AddVerb(app, line, "snapshots", "List the snapshots",
          [&line] { return ListSnapshots(line.global); });
}

void AddSavedVerbs(CLI::App& app, CommandLine& line) {
  SavedOptions& options = line.saved;
  CLI::App* save = AddVerb(app, line, "save", "Save a sequence to a file of the daemon's store",
                           [&line] { return SaveSequence(line.global, line.saved); });
  save->add_option("handle", options.handle, "a sequence, as ps shows it")->required();
  auto* name = save->add_option("name", options.name, "of the file");
  auto* size = save->add_flag("--size", options.size_only, "tell its size, save nothing");
  name->excludes(size);
  save->add_flag("--no-logits", options.no_logits, "without the last row of logits");
  save->add_flag("--tokens-only", options.tokens_only,
                 "tokens alone: small, and computed again when loaded");
  save->add_flag("--unpacked", options.is_unpacked, "larger and faster");
  save->add_flag("--q8", options.q8_rows, "keys and values as q8_0");
  save->add_flag("-f,--force", options.is_forced, "replace a file of that name");
  CLI::App* load = AddVerb(app, line, "load", "Load the sequences of a saved file",
                           [&line] { return LoadSequences(line.global, line.saved); });
  load->add_option("name", options.name, "of the file")->required();
  load->add_flag("--hold", options.holds, "keep them until Ctrl-C");
  load->add_option("--publish", options.publish_as, "publish the first one as this snapshot");
  CLI::App* saved = AddVerb(app, line, "saved", "List the saved files",
                            [&line] { return ListSaved(line.global, line.saved); });
  saved->add_option("--rm", options.removed, "remove this one");
}

void AddPrefixVerbs(CLI::App& app, CommandLine& line) {
  PrefixOptions& options = line.prefix;
  CLI::App* warm = AddVerb(app, line, "warm", "Compute a prompt ahead; it stays as a prefix",
                           [&line] { return WarmPrefix(line.global, line.prefix); });
  warm->add_option("file", options.file, "the prompt's text; -: standard input")->required();
  warm->add_flag("--parse-special", options.parses_special,
                 "names of special tokens in the text are those tokens");
  warm->add_flag("--pin", options.is_pinned, "never evict it");
  for (const bool is_pinned : {true, false}) {
    CLI::App* pin =
        AddVerb(app, line, is_pinned ? "pin" : "unpin",
                is_pinned ? "Never evict these sequences" : "Evict these sequences like others",
                [&line, is_pinned] { return PinSequences(line.global, line.prefix, is_pinned); });
    pin->add_option("handle", options.handles, "a sequence, as ps shows it")->required();
    pin->add_flag("-f,--force", options.is_forced, "also those that another session uses");
  }
  CLI::App* drop = AddVerb(app, line, "drop", "Drop the sequences that are only retained",
                           [&line] { return DropSequences(line.global, line.prefix); });
  drop->add_flag("--retained", options.only_retained, "all retained ones of this user")->required();
  drop->add_flag("-f,--force", options.is_forced, "pinned ones too");
}

void AddLlamaVerbs(CLI::App& app, CommandLine& line) {
  LlamaOptions& options = line.llama;
  CLI::App* import =
      AddVerb(app, line, "import", "Publish a sequence from a state file of llama.cpp",
              [&line] { return ImportFile(line.global, line.llama); });
  import->add_option("file", options.path, "a session or sequence file")->required();
  import->add_option("name", options.name, "the snapshot's name [the file's]");
  import->add_option("--seq", options.sequence_id, "which of a session's sequences")
      ->check(CLI::Range(0, 0x7fffffff));
  import->add_flag("--unrotated", options.is_unrotated,
                   "a quantised file of a build that does not rotate heads");
  import->add_flag("-f,--force", options.is_forced, "replace a snapshot of that name");
  CLI::App* out = AddVerb(app, line, "export", "Write a sequence as a state file of llama.cpp",
                          [&line] { return ExportFile(line.global, line.llama); });
  out->add_option("handle", options.handle, "a sequence, as ps shows it")->required();
  out->add_option("file", options.path, "a path")->required();
  out->add_option("--layout", options.layout,
                  "2026: as llama.cpp of August 2026 reads it; 2025: of February 2025 [2026]");
  out->add_flag("--session", options.is_session, "a session file, not a sequence file");
  out->add_flag("--v-transposed", options.is_v_transposed,
                "as llama.cpp without flash attention reads it");
  out->add_option("--streams", options.streams,
                  "of 2026: sequences of the reading context, if its cache is not unified [1]")
      ->check(CLI::Range(1, 256));
  out->add_flag("--unrotated", options.is_unrotated,
                "of 2026: for a reader with LLAMA_ATTN_ROT_DISABLE");
  out->add_option("--type-k", options.k_type, "f32, f16, bf16 or q8_0 [the pool's]");
  out->add_option("--type-v", options.v_type, "f32, f16, bf16 or q8_0 [the pool's]");
}

void AddDaemonVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* tokenize = AddVerb(app, line, "tokenize", "Show the tokens of a text",
                               [&line] { return TokenizeText(line.global, line.text); });
  tokenize->add_option_function<std::string>(
      "text",
      [&line](const std::string& text) {
        line.text.text = text;
        line.text.has_text = true;
      },
      "the text; standard input without it");
  tokenize->add_flag("--add-special", line.text.adds_special, "with the model's begin token");
  tokenize->add_flag("--parse-special", line.text.parses_special,
                     "names of special tokens in the text are those tokens");
  CLI::App* why =
      AddVerb(app, line, "why", "Tell what of a prompt could be reused, and why not more",
              [&line] { return ExplainPrompt(line.global, line.text); });
  why->add_option_function<std::string>(
      "prompt",
      [&line](const std::string& text) {
        line.text.text = text;
        line.text.has_text = true;
      },
      "the prompt; standard input without it");
  why->add_flag("--parse-special", line.text.parses_special,
                "names of special tokens in the prompt are those tokens");
  CLI::App* embed = AddVerb(app, line, "embed", "Show the embedding of a text, of length 1",
                            [&line] { return EmbedText(line.global, line.embed); });
  embed->add_option_function<std::string>(
      "text",
      [&line](const std::string& text) {
        line.embed.text = text;
        line.embed.has_text = true;
      },
      "the text; standard input without it");
  embed->add_flag("--raw", line.embed.is_raw, "as the model gives it, not normalised");
  CLI::App* info = AddVerb(app, line, "info", "Show the model, the pool and the daemon", [&line] {
    return line.info_wants_profile ? ShowProfile(line.global) : ShowInfo(line.global);
  });
  info->add_flag("--profile", line.info_wants_profile,
                 "where the time of its steps went: of decode steps, and of those with prompts");
  AddVerb(app, line, "defrag", "Pack the pool and settle sequences with many shifts",
          [&line] { return Defragment(line.global); });
  CLI::App* ping = AddVerb(app, line, "ping", "Measure round trips",
                           [&line] { return PingDaemon(line.global, line.ping); });
  ping->add_option("-c,--count", line.ping.count, "how many [10]")->check(CLI::Range(1, 1'000'000));
  ping->add_option("--bytes", line.ping.payload_bytes, "there and back [0]")
      ->check(CLI::Range(0, 4096));
}

void AddMapVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* map = AddVerb(app, line, "map", "Show which sequences hold which cells",
                          [&line] { return ShowMap(line.global, line.map); });
  map->add_flag("--svg", line.map.wants_svg, "as a picture");
  CLI::App* top = AddVerb(app, line, "top", "The same and who computes, until Ctrl-C",
                          [&line] { return ShowTop(line.global, line.map); });
  top->add_flag("--once", line.map.is_once, "show it once");
  top->add_option("--period-ms", line.map.period_ms, "between two looks [500]")
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
  // A closed pipe (kvctl run ... | head) ends kvctl like any other filter: SIGPIPE stays as it is.
  CommandLine line;
  line.global.connect.client_name = "kvctl";
  CLI::App app("kvctl: talk to a kvd daemon", "kvctl");
  app.require_subcommand(1);
  app.fallthrough();
  auto* socket = app.add_option("--socket", line.global.connect.socket_path,
                                "the daemon's socket [KVD_SOCKET]");
  app.add_option("--name", line.global.connect.daemon_name,
                 "the daemon's name, for the default socket path")
      ->excludes(socket);
  app.add_option("--cache-salt", line.global.connect.cache_salt,
                 "a number: prompts share with sequences of the same one alone [0]");
  app.add_option("--timeout-ms", line.timeout_ms, "of each request; without it they wait");
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
