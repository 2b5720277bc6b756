// The command line of the verbs on sequences and on what is kept of them: snapshots, saved files,
// prefixes, and state files of llama.cpp.
#include "client/kvctl/command_line.h"
#include "client/kvctl/commands.h"
#include "shm/wire_messages.h"

namespace kvd::kvctl {

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
      ->check(CLI::Range(0u, wire::kTtlSecondsMax));
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
      ->check(CLI::Range(0u, wire::kTtlSecondsMax));
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

}  // namespace kvd::kvctl
