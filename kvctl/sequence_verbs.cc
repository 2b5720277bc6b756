// The verbs of sequences, snapshots, saved states, prefixes and files of llama.cpp.
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

using SequenceFlag = Flag<CommandLine>;

// Each of these takes the function that stores the value in the options of its verb.
constexpr SequenceFlag HandleArgument(decltype(SequenceFlag::take) take) {
  return {.names = "handle",
          .help = "Handle of a sequence, as in ps, or name of a snapshot.",
          .take = take,
          .is_required = true};
}
constexpr SequenceFlag HandlesArgument(decltype(SequenceFlag::take) take) {
  return {.names = "handle",
          .help = "Handles of sequences, as in ps, or names of snapshots.",
          .take = take,
          .is_required = true,
          .is_list = true};
}
constexpr SequenceFlag OtherSessionsFlag(decltype(SequenceFlag::take) take) {
  return SwitchFlag("-f --force", "Act also on sequences of your other sessions.", take);
}

constexpr auto kForkFlags = std::to_array<Flag<CommandLine>>({
    HandleArgument(TakeMore<&CommandLine::sequence, &SequenceOptions::handles>),
    ValueFlag("-c --count", "N", "Number of forks. Default: 1. Range: 1 to 1024.",
              TakeNumber<1, 1024, &CommandLine::sequence, &SequenceOptions::fork_count>),
    ValueFlag("--cells", "N",
              "Number of first cells to fork. Default: all. Range: 0 to 2147483647.",
              TakeNumber<0, 0x7fffffff, &CommandLine::sequence, &SequenceOptions::cell_count>),
    SwitchFlag("--hold", "Keep the forks until Ctrl-C.",
               TakeSwitch<&CommandLine::sequence, &SequenceOptions::holds>),
});

constexpr auto kRmFlags = std::to_array<Flag<CommandLine>>({
    HandlesArgument(TakeMore<&CommandLine::sequence, &SequenceOptions::handles>),
    OtherSessionsFlag(TakeSwitch<&CommandLine::sequence, &SequenceOptions::is_forced>),
});

constexpr auto kLogFlags = std::to_array<Flag<CommandLine>>({
    HandleArgument(TakeMore<&CommandLine::sequence, &SequenceOptions::handles>),
});

constexpr auto kTextFlags = std::to_array<Flag<CommandLine>>({
    HandleArgument(TakeMore<&CommandLine::sequence, &SequenceOptions::handles>),
    SwitchFlag("--special", "Show special tokens.",
               TakeSwitch<&CommandLine::sequence, &SequenceOptions::shows_special>),
});

constexpr auto kSequenceVerbs = std::to_array<CommandRow>({
    {.name = "ps",
     .description = "List the sequences",
     .example = "ps --json",
     .run = [](const CommandLine& line) { return ListSequences(line.global); }},
    {.name = "fork",
     .description = "Fork a sequence (no cell is copied)",
     .example = "fork --count 2 --hold notes",
     .run = [](const CommandLine& line) { return ForkSequence(line.global, line.sequence); },
     .flags = kForkFlags},
    {.name = "rm",
     .description = "Remove sequences and snapshots",
     .example = "rm 4294967299 notes",
     .run = [](const CommandLine& line) { return RemoveSequences(line.global, line.sequence); },
     .flags = kRmFlags},
    {.name = "log",
     .description = "Show a sequence's ancestors and their edits",
     .example = "log 4294967299",
     .run = [](const CommandLine& line) { return ShowLog(line.global, line.sequence); },
     .flags = kLogFlags},
    {.name = "text",
     .description = "Show a sequence's text",
     .example = "text --special 4294967299",
     .run = [](const CommandLine& line) { return ShowText(line.global, line.sequence); },
     .flags = kTextFlags},
});

constexpr auto kPublishFlags = std::to_array<Flag<CommandLine>>({
    HandleArgument(TakeText<&CommandLine::snapshot, &SnapshotOptions::handle>),
    {.names = "name",
     .help = "Name of the snapshot.",
     .take = TakeText<&CommandLine::snapshot, &SnapshotOptions::name>,
     .is_required = true},
    SwitchFlag("--public", "Let every user that may connect fork the snapshot.",
               TakeSwitch<&CommandLine::snapshot, &SnapshotOptions::is_public>),
    ValueFlag(
        "--ttl", "SECONDS",
        "Time in seconds after which the snapshot is dropped. 0: it does not expire. "
        "Default: 0. Range: 0 to 31536000.",
        TakeNumber<0, wire::kTtlSecondsMax, &CommandLine::snapshot, &SnapshotOptions::ttl_seconds>),
    SwitchFlag("--ephemeral", "Let no prompt reuse the snapshot, except by a fork.",
               TakeSwitch<&CommandLine::snapshot, &SnapshotOptions::is_ephemeral>),
    SwitchFlag("-f --force", "Replace a snapshot of that name.",
               TakeSwitch<&CommandLine::snapshot, &SnapshotOptions::is_forced>),
});

constexpr auto kAttachFlags = std::to_array<Flag<CommandLine>>({
    {.names = "name",
     .help = "Name of the snapshot.",
     .take = TakeText<&CommandLine::snapshot, &SnapshotOptions::name>,
     .is_required = true},
    SwitchFlag("--hold", "Keep the fork until Ctrl-C.",
               TakeSwitch<&CommandLine::snapshot, &SnapshotOptions::holds>),
});

constexpr auto kUnpublishFlags = std::to_array<Flag<CommandLine>>({
    {.names = "name",
     .help = "Name of the snapshot.",
     .take = TakeText<&CommandLine::snapshot, &SnapshotOptions::name>,
     .is_required = true},
    SwitchFlag("-f --force", "Remove also a snapshot of your other sessions.",
               TakeSwitch<&CommandLine::snapshot, &SnapshotOptions::is_forced>),
});

constexpr auto kSnapshotVerbs = std::to_array<CommandRow>({
    {.name = "publish",
     .description = "Publish a sequence as a named snapshot",
     .example = "publish 4294967299 notes",
     .run = [](const CommandLine& line) { return PublishSnapshot(line.global, line.snapshot); },
     .flags = kPublishFlags},
    {.name = "attach",
     .description = "Fork a snapshot",
     .example = "attach --hold notes",
     .run = [](const CommandLine& line) { return AttachSnapshot(line.global, line.snapshot); },
     .flags = kAttachFlags},
    {.name = "unpublish",
     .description = "Remove a snapshot",
     .example = "unpublish notes",
     .run = [](const CommandLine& line) { return UnpublishSnapshot(line.global, line.snapshot); },
     .flags = kUnpublishFlags},
    {.name = "snapshots",
     .description = "List the snapshots",
     .example = "snapshots --json",
     .run = [](const CommandLine& line) { return ListSnapshots(line.global); }},
});

constexpr auto kSaveFlags = std::to_array<Flag<CommandLine>>({
    {.names = "handle",
     .help = "Handle of a sequence, as in ps, or name of a snapshot. Required without --all.",
     .take = TakeText<&CommandLine::saved, &SavedOptions::handle>},
    {.names = "name",
     .help = "Name of the file. Default: that of the snapshot.",
     .take = TakeText<&CommandLine::saved, &SavedOptions::name>,
     .excludes = "--size"},
    {.names = "--size",
     .help = "Print the size without saving.",
     .take = TakeSwitch<&CommandLine::saved, &SavedOptions::size_only>,
     .excludes = "name"},
    SwitchFlag("--all", "Save each of your snapshots in a file of its name.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::saves_all>),
    SwitchFlag("--no-logits", "Leave out the last row of logits.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::no_logits>),
    SwitchFlag("--tokens-only",
               "Save only the tokens: the file is small, but a load computes the tokens again.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::tokens_only>),
    SwitchFlag("--unpacked", "Do not compress: the file is larger and written faster.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::is_unpacked>),
    SwitchFlag("--q8", "Convert keys and values to q8_0.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::q8_rows>),
    SwitchFlag("-f --force", "Replace a file of that name.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::is_forced>),
});

constexpr auto kLoadFlags = std::to_array<Flag<CommandLine>>({
    {.names = "name",
     .help = "Name of the file.",
     .take = TakeText<&CommandLine::saved, &SavedOptions::name>,
     .is_required = true},
    SwitchFlag("--hold", "Keep the sequences until Ctrl-C.",
               TakeSwitch<&CommandLine::saved, &SavedOptions::holds>),
    ValueFlag(
        "--publish", "NAME",
        "Publish the first sequence as a snapshot of this name. Default: it is not published.",
        TakeText<&CommandLine::saved, &SavedOptions::publish_as>),
});

constexpr auto kSavedFlags = std::to_array<Flag<CommandLine>>({
    ValueFlag("--rm", "NAME", "Remove this file instead. Default: none.",
              TakeText<&CommandLine::saved, &SavedOptions::removed>),
});

constexpr auto kSavedVerbs = std::to_array<CommandRow>({
    {.name = "save",
     .description = "Save a sequence to a file of the daemon's store",
     .example = "save notes",
     .run = [](const CommandLine& line) { return SaveSequence(line.global, line.saved); },
     .flags = kSaveFlags},
    {.name = "load",
     .description = "Load the sequences of a saved file",
     .example = "load --publish latest notes",
     .run = [](const CommandLine& line) { return LoadSequences(line.global, line.saved); },
     .flags = kLoadFlags},
    {.name = "saved",
     .description = "List the saved files",
     .example = "saved --json",
     .run = [](const CommandLine& line) { return ListSaved(line.global, line.saved); },
     .flags = kSavedFlags},
});

constexpr auto kWarmTopics = std::to_array<FlagTopic<CommandLine>>({{"Chat", kWarmChatFlags}});

constexpr auto kWarmFlags = std::to_array<Flag<CommandLine>>({
    {.names = "file",
     .help = "File with the prompt's text, or with --chat with a user's message. -: standard "
             "input. Required without --chat.",
     .take = TakeText<&CommandLine::warm, &WarmOptions::file>},
    ParseSpecialFlag(TakeSwitch<&CommandLine::warm, &WarmOptions::parses_special>, "--chat"),
    {.names = "--pin",
     .help = "Never evict the sequence.",
     .take = TakeSwitch<&CommandLine::warm, &WarmOptions::is_pinned>,
     .excludes = "--keep"},
    ValueFlag("--keep", "NAME",
              "Publish the result as a snapshot of this name, for run --from. "
              "Default: the result is not published.",
              TakeText<&CommandLine::warm, &WarmOptions::keep_as>),
    {.names = "-f --force",
     .help = "Replace the snapshot that has the name of --keep.",
     .take = TakeSwitch<&CommandLine::warm, &WarmOptions::replaces>,
     .needs = "--keep"},
    {.names = "--ttl",
     .argument = "SECONDS",
     .help = "Time in seconds after which the snapshot of --keep is dropped. 0: it does not "
             "expire. Default: 0. Range: 0 to 31536000.",
     .take = TakeNumber<0, wire::kTtlSecondsMax, &CommandLine::warm, &WarmOptions::ttl_seconds>,
     .needs = "--keep"},
});

constexpr auto kLifeFlags = std::to_array<Flag<CommandLine>>({
    HandlesArgument(TakeMore<&CommandLine::life, &LifeOptions::handles>),
    ValueFlag("--ttl", "SECONDS",
              "Time in seconds after which the sequence is dropped. 0: it does not expire. "
              "Default: 0. Range: 0 to 31536000.",
              TakeNumber<0, wire::kTtlSecondsMax, &CommandLine::life, &LifeOptions::ttl_seconds>),
    SwitchFlag("--ephemeral", "Let no prompt reuse the sequence, and drop it when it is released.",
               TakeSwitch<&CommandLine::life, &LifeOptions::is_ephemeral>),
    OtherSessionsFlag(TakeSwitch<&CommandLine::life, &LifeOptions::is_forced>),
});

constexpr auto kPinFlags = std::to_array<Flag<CommandLine>>({
    HandlesArgument(TakeMore<&CommandLine::prefix, &PrefixFlags::handles>),
    OtherSessionsFlag(TakeSwitch<&CommandLine::prefix, &PrefixFlags::is_forced>),
});

constexpr auto kDropFlags = std::to_array<Flag<CommandLine>>({
    SwitchFlag("--retained", "Drop all retained sequences of this user, as without this flag.",
               TakeSwitch<&CommandLine::prefix, &PrefixFlags::only_retained>),
    SwitchFlag("-f --force", "Drop also pinned sequences.",
               TakeSwitch<&CommandLine::prefix, &PrefixFlags::is_forced>),
});

constexpr auto kPrefixVerbs = std::to_array<CommandRow>({
    {.name = "warm",
     .description = "Compute a prompt in advance and retain it as a prefix",
     .example = "warm --keep notes prompt.txt",
     .run = [](const CommandLine& line) { return WarmPrefix(line.global, line.warm); },
     .flags = kWarmFlags,
     .topics = kWarmTopics},
    {.name = "life",
     .description = "Set when sequences expire, and whether prompts may reuse them",
     .example = "life 4294967299 --ttl 3600",
     .run = [](const CommandLine& line) { return SetLife(line.global, line.life); },
     .flags = kLifeFlags},
    {.name = "pin",
     .description = "Protect sequences from eviction",
     .example = "pin 4294967299",
     .run = [](const CommandLine& line) { return PinSequences(line.global, line.prefix, true); },
     .flags = kPinFlags},
    {.name = "unpin",
     .description = "End the protection from eviction",
     .example = "unpin 4294967299",
     .run = [](const CommandLine& line) { return PinSequences(line.global, line.prefix, false); },
     .flags = kPinFlags},
    {.name = "drop",
     .description = "Drop all retained sequences",
     .example = "drop",
     .run = [](const CommandLine& line) { return DropSequences(line.global, line.prefix); },
     .flags = kDropFlags},
});

constexpr auto kImportFlags = std::to_array<Flag<CommandLine>>({
    {.names = "file",
     .help = "Session file or sequence file.",
     .take = TakeText<&CommandLine::llama, &LlamaOptions::path>,
     .is_required = true},
    {.names = "name",
     .help = "Name of the snapshot. Default: the file's name without extension.",
     .take = TakeText<&CommandLine::llama, &LlamaOptions::name>},
    ValueFlag(
        "--seq", "N",
        "Id of a sequence in a session file. Default: the only sequence. Range: 0 to 2147483647.",
        TakeNumber<0, 0x7fffffff, &CommandLine::llama, &LlamaOptions::sequence_id>),
    SwitchFlag("--unrotated", "Read a quantised file of a llama.cpp that does not rotate heads.",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_unrotated>),
    SwitchFlag("-f --force", "Replace a snapshot of that name.",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_forced>),
});

constexpr auto kExportFlags = std::to_array<Flag<CommandLine>>({
    HandleArgument(TakeText<&CommandLine::llama, &LlamaOptions::handle>),
    {.names = "file",
     .help = "Path of the file to write.",
     .take = TakeText<&CommandLine::llama, &LlamaOptions::path>,
     .is_required = true},
    SwitchFlag("-f --force", "Replace a file of that path.",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_forced>),
    ValueFlag(
        "--layout", "YEAR",
        "2026: for llama.cpp of August 2026; 2025: for llama.cpp of February 2025. Default: 2026.",
        TakeText<&CommandLine::llama, &LlamaOptions::layout>),
    SwitchFlag("--session", "Write a session file instead of a sequence file.",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_session>),
    SwitchFlag("--v-transposed", "Write for llama.cpp without flash attention.",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_v_transposed>),
    ValueFlag("--streams", "N",
              "Number of sequences of the reading context if its cache is not unified (layout "
              "2026). Default: 1. Range: 1 to 256.",
              TakeNumber<1, 256, &CommandLine::llama, &LlamaOptions::streams>),
    SwitchFlag("--unrotated", "Write for a reader with LLAMA_ATTN_ROT_DISABLE (layout 2026).",
               TakeSwitch<&CommandLine::llama, &LlamaOptions::is_unrotated>),
    ValueFlag("--type-k", "TYPE",
              "Number type of the keys: f32, f16, bf16, q8_0 or q4_0. Default: that of the pool.",
              TakeText<&CommandLine::llama, &LlamaOptions::k_type>),
    ValueFlag("--type-v", "TYPE",
              "Number type of the values: f32, f16, bf16, q8_0 or q4_0. Default: that of the pool.",
              TakeText<&CommandLine::llama, &LlamaOptions::v_type>),
});

constexpr auto kLlamaVerbs = std::to_array<CommandRow>({
    {.name = "import",
     .description = "Publish a sequence from a state file of llama.cpp",
     .example = "import notes.bin notes",
     .run = [](const CommandLine& line) { return ImportFile(line.global, line.llama); },
     .flags = kImportFlags},
    {.name = "export",
     .description = "Write a sequence as a state file of llama.cpp",
     .example = "export notes notes.bin",
     .run = [](const CommandLine& line) { return ExportFile(line.global, line.llama); },
     .flags = kExportFlags},
});

}  // namespace

std::span<const CommandRow> SequenceVerbs() { return kSequenceVerbs; }
std::span<const CommandRow> SnapshotVerbs() { return kSnapshotVerbs; }
std::span<const CommandRow> SavedVerbs() { return kSavedVerbs; }
std::span<const CommandRow> PrefixVerbs() { return kPrefixVerbs; }
std::span<const CommandRow> LlamaVerbs() { return kLlamaVerbs; }

}  // namespace kvd::kvctl
