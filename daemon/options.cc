// Each flag is a row of a table by topic. An error names the flag in all its spellings:
// "-c,--cells,--ctx-size: \"0\" is not a number from 1 to ...".
#include "daemon/options.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/flag.h"
#include "base/flag_help.h"
#include "base/flag_table.h"
#include "base/name.h"
#include "base/text.h"
#include "kernels/data_type.h"

namespace kvd {
namespace {

constexpr std::uint64_t kCellsMax = 1ull << 32;
constexpr std::uint32_t kSequencesMax = 1u << 20;
constexpr std::uint32_t kThreadsMax = 256;
constexpr std::uint32_t kCheckpointEveryMax = 1u << 30;
constexpr std::uint32_t kCheckpointMbMax = 1u << 24;
constexpr std::uint32_t kUbatchTokensMax = 16384;
constexpr std::uint32_t kCacheMbMax = 1u << 30;

using Parsed = Result<std::variant<DaemonOptions, PrintAndExit>>;

Status TakeUid(DaemonOptions& options, const FlagValue& value) {
  return value.Number(options.allowed_uids.emplace_back(), 0, 0xfffffffe);
}

template <auto first, auto... rest>
Status TakeCellType(DaemonOptions& options, const FlagValue& value) {
  for (const kernels::DataType type : kernels::kCellTypes) {
    if (value.text != kernels::DataTypeName(type)) continue;
    MemberOf<first, rest...>(options) = type;
    return {};
  }
  return value.Wrong("f32, f16, bf16, q8_0 or q4_0");
}

Status TakePrefetch(DaemonOptions& options, const FlagValue& value) {
  if (value.text == "on") {
    options.prefetch = Prefetch::kOn;
  } else if (value.text == "off") {
    options.prefetch = Prefetch::kOff;
  } else if (value.text == "auto") {
    options.prefetch = Prefetch::kAuto;
  } else {
    return value.Wrong("on, off or auto");
  }
  return {};
}

Status TakeLevel(DaemonOptions& options, const FlagValue& value) {
  KVD_TRY(options.log_level, ParseLogLevel(value.text));
  return {};
}

constexpr auto kModelAndComputeFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("-m --model", "FILE",
              "Model file (GGUF), or the first part of a model in several files. Default: the "
              "bundled model.",
              TakeName<&DaemonOptions::engine, &EngineOptions::model_path>),
    ValueFlag("--prefetch", "MODE",
              "Read all weights into memory: on: before clients are served; auto: while "
              "clients are served, if the weights fit into free memory; off: each page "
              "when it is first used. Default: auto.",
              TakePrefetch),
    SwitchFlag("--mlock",
               "Lock the weights in memory. With --prefetch auto they are all read before clients "
               "are served. If the system refuses, kvd warns and serves without the lock.",
               TakeSwitch<&DaemonOptions::locks_weights>),
    ValueFlag("-c --cells --ctx-size", "N",
              "Number of tokens that the pool can hold. A stored pool of another size is changed, "
              "and keeps its sequences. Default: the model's trained context, at least 4096. "
              "Range: 1 to 4294967296.",
              TakeNumber<1, kCellsMax, &DaemonOptions::engine, &EngineOptions::cells>),
    ValueFlag("--state-slots", "N",
              "Number of recurrent states to keep, for models that have them. 0: the number "
              "that fits into 1 GiB, from 16 to 1024. Default: 0. Range: 0 to 1048576.",
              TakeNumber<0, kSequencesMax, &DaemonOptions::engine, &EngineOptions::state_slots>),
    ValueFlag("--checkpoint-every", "N",
              "Distance in tokens between two checkpoints of a recurrent state. 0: checkpoints "
              "only at the ends of prompts and at forks. Default: 512. Range: 0 to 1073741824.",
              TakeNumber<0, kCheckpointEveryMax, &DaemonOptions::engine,
                         &EngineOptions::checkpoint_every>),
    ValueFlag(
        "--checkpoint-mb", "MIB",
        "Maximum size in MiB of the recurrent states kept as checkpoints. 0: half of all "
        "state slots. Default: 0. Range: 0 to 16777216.",
        TakeNumber<0, kCheckpointMbMax, &DaemonOptions::engine, &EngineOptions::checkpoint_mb>),
    ValueFlag(
        "--max-sequences", "N",
        "Maximum number of live sequences of all users together. Default: four for each "
        "token of the pool, from 1024 to 16384. Range: 1 to 1048576.",
        TakeNumber<1, kSequencesMax, &DaemonOptions::engine, &EngineOptions::sequence_capacity>),
    ValueFlag("-t --threads", "N",
              "Number of compute threads. 0: one for each processor that kvd may use. Default: "
              "0. Range: 0 to 256.",
              TakeNumber<0, kThreadsMax, &DaemonOptions::engine, &EngineOptions::threads>),
    SwitchFlag("--pin-threads", "Bind each compute thread to its own processor.",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::pin_threads>),
    {.names = "--ubatch-size",
     .argument = "N",
     .help = "Maximum number of tokens in one pass through the model (short form: -ub). "
             "Default: 512. Range: 1 to 16384.",
     .take = TakeNumber<1, kUbatchTokensMax, &DaemonOptions::engine, &EngineOptions::ubatch_tokens>,
     .hidden = "-ub"},
    {.names = "--cache-type-k",
     .argument = "TYPE",
     .help =
         "Number type of the K cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctk). Default: "
         "f16.",
     .take = TakeCellType<&DaemonOptions::engine, &EngineOptions::k_type>,
     .hidden = "-ctk"},
    {.names = "--cache-type-v",
     .argument = "TYPE",
     .help =
         "Number type of the V cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctv). Default: "
         "f16.",
     .take = TakeCellType<&DaemonOptions::engine, &EngineOptions::v_type>,
     .hidden = "-ctv"},
    ValueFlag("--kernels", "SET",
              "Instruction set to use: scalar, avx2, avx512 or amx. Default: the value of "
              "KVD_KERNELS, or else the best that the machine supports.",
              TakeName<&DaemonOptions::engine, &EngineOptions::kernel_table>),
    SwitchFlag("--swa-full",
               "Keep all cells in layers with a sliding window, so that no edit is refused as "
               "window_lost.",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::swa_full>),
    SwitchFlag("--llama-shifts",
               "Shift and divide positions in the same way as llama.cpp of August 2026 "
               "(docs/decisions/0005).",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::llama_shifts>),
    SwitchFlag("--deterministic",
               "Compute the logits of a token so that they depend, bit for bit, only on its "
               "sequence and not on the other requests.",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::deterministic>),
    SwitchFlag("--no-tuning",
               "Use the default forms of matrix products: neither measure which are faster while "
               "idle nor use what an earlier run has measured (docs/tuning.md).",
               TakeNegative<&DaemonOptions::engine, &EngineOptions::tunes>),
    SwitchFlag("--retune",
               "Measure at the start, before clients are served, which forms of matrix products "
               "are faster, and use and keep the result.",
               TakeSwitch<&DaemonOptions::retunes>),
});

constexpr auto kPlacesFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--name", "NAME",
              "Name of this daemon, from which the default paths of its socket and its state "
              "are made. Default: default. Range: 1 to 63 letters, digits, '_', '-' or '.', not "
              "beginning with '.'.",
              TakeName<&DaemonOptions::name>),
    ValueFlag("--socket", "PATH",
              "Path of the socket. Default: NAME.sock in $XDG_RUNTIME_DIR/kvd, else for root in "
              "/run/kvd, else in kvd-UID in the temporary directory. A socket passed by a service "
              "manager (LISTEN_FDS) is used instead.",
              TakeName<&DaemonOptions::socket_path>),
    ValueFlag(
        "--state-dir", "DIR",
        "Private directory of the cached state of one model, which stays there when kvd ends, "
        "unless it holds no sequences. Default: a directory for NAME on a tmpfs, or in the "
        "temporary directory if no tmpfs has room, with a folder for each model.",
        TakeName<&DaemonOptions::state_directory>),
});

constexpr auto kFilesFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--store", "DIR",
              "Directory in which clients can save sequences. Default: none; clients cannot "
              "save.",
              TakeName<&DaemonOptions::store>),
    ValueFlag("--cache-dir", "DIR",
              "Directory of the prompt cache on disk, which several daemons of one user may "
              "share. Default: none; prompts are not cached on disk.",
              TakeName<&DaemonOptions::cache_directory>),
    ValueFlag("--cache-mb", "MIB",
              "Maximum size in MiB of all files in --cache-dir together; the oldest entries are "
              "removed to make room. Default: 4096. Range: 1 to 1073741824.",
              TakeNumber<1, kCacheMbMax, &DaemonOptions::cache_mb>),
    ValueFlag(
        "--cache-min-tokens", "N",
        "Minimum length in tokens of the prompts that are written to --cache-dir. "
        "Default: 64. Range: 16 to 1073741824.",
        TakeNumber<PrefixCache::kCellsMin, kCheckpointEveryMax, &DaemonOptions::cache_tokens_min>),
});

constexpr auto kStateFlags = std::to_array<Flag<DaemonOptions>>({
    SwitchFlag("--cold",
               "Start without the cached state of an earlier run, which is kept aside where there "
               "is room (docs/saved-states.md). Without this flag, kvd refuses to start if its "
               "flags would discard live, pinned or published sequences.",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::starts_cold>),
    SwitchFlag("--forget",
               "Remove the cached state in --state-dir, or the states of all models in the default "
               "places of --name, print which, and exit.",
               TakeSwitch<&DaemonOptions::forgets>),
    ValueFlag("--only", "MODEL",
              "With --forget: remove only the state of this model, given by its name or by the "
              "name of its folder. Default: all models.",
              TakeName<&DaemonOptions::forgets_only>),
    SwitchFlag("--verify-pool",
               "At the start, check all numbers in the cells and recurrent states of an earlier "
               "run, and drop sequences with a number that is not finite.",
               TakeSwitch<&DaemonOptions::engine, &EngineOptions::verify_pool>),
    SwitchFlag("--describe",
               "Print what the model's file says, such as the trained context and the bytes of a "
               "cell, and exit.",
               TakeSwitch<&DaemonOptions::describes>),
});

constexpr auto kWhoMayConnectFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--allow-uid", "UID",
              "User id (a number) that may connect in addition to the daemon's own. Can be "
              "given several times. Default: none. Range: 0 to 4294967294.",
              TakeUid),
    ValueFlag("--socket-group", "GROUP",
              "Group (name or number) whose members may connect in addition to the daemon's own "
              "user. Default: none.",
              TakeName<&DaemonOptions::socket_group>),
    ValueFlag("--tenant-uid", "N",
              "User id (a number) whose clients may name a tenant for which they act. Each tenant "
              "has its own sequences, names, saved states and limits. Default: the daemon's own. "
              "Range: 0 to 4294967294.",
              TakeNumber<0, 0xfffffffeu, &DaemonOptions::tenant_uid>),
    ValueFlag(
        "--tenants", "FILE",
        "File of the tenants' names and limits, which SIGHUP reads again. Default: none; each "
        "tenant has the limits of another uid.",
        TakeName<&DaemonOptions::tenants_path>),
});

constexpr auto kStepsAndMemoryFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--defrag-threshold", "PERCENT",
              "Start a defragmentation when more than this percentage of the used blocks is "
              "waste. 0: never automatically. Default: 30. Range: 0 to 100.",
              TakeNumber<0, 100, &DaemonOptions::defrag_threshold>),
    ValueFlag("--prefill-chunk", "N",
              "Maximum number of prompt tokens in a step that also decodes. Default: 256, or "
              "--ubatch-size if that is less. Range: 1 to --ubatch-size.",
              TakeNumber<1, kUbatchTokensMax, &DaemonOptions::prefill_chunk>),
    ValueFlag("--max-step-ms", "MS",
              "Target duration in milliseconds of a step that also decodes, including the "
              "slices of divisions, encoded texts and replays after it. Prompts and this work "
              "get smaller chunks to keep it. 0: no limit. Default: 200. Range: 0 to 60000.",
              TakeNumber<0, 60'000, &DaemonOptions::max_step_ms>),
    ValueFlag("--room-wait-ms", "MS",
              "Time in milliseconds for which a request waits for room in the pool while no "
              "request of its user progresses. 0: it fails at once. Default: 60000. Range: 0 to "
              "86400000.",
              TakeNumber<0, 86'400'000, &DaemonOptions::room_wait_ms>),
    SwitchFlag("--no-prefix-sharing",
               "Compute every prompt completely; prompts do not reuse cells of other sequences.",
               TakeNegative<&DaemonOptions::shares_prefixes>),
    ValueFlag("--retain", "N",
              "Maximum number of sequences that stay in the pool as prefixes after their "
              "clients have released them, until their room is needed. 0: none. Default: no "
              "limit. Range: 0 to 4294967295.",
              TakeNumber<0, 0xffffffff, &DaemonOptions::retained_max>),
    ValueFlag("--workers", "N",
              "Maximum number of calls on text and files that run at the same time; long calls "
              "take turns. Default: 2. Range: 1 to 256.",
              TakeNumber<1, kThreadsMax, &DaemonOptions::workers>),
});

constexpr auto kConnectionsFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--hello-timeout-ms", "MS",
              "Time in milliseconds within which a new connection must send its hello. Default: "
              "5000. Range: 1 to 600000.",
              TakeNumber<1, 600'000, &DaemonOptions::hello_timeout_ms>),
    ValueFlag("--reconnect-wait-ms", "MS",
              "Time in milliseconds for which a client's sequences are kept for it after its "
              "connection is lost. 0: they are released at once. Default: 2000. Range: 0 to "
              "3600000.",
              TakeNumber<0, 3'600'000, &DaemonOptions::reconnect_wait_ms>),
    ValueFlag("--restart-wait", "SECONDS",
              "Time in seconds for which the sequences of clients that were connected to an "
              "earlier daemon are kept for them after the start. Default: 600. Range: 0 to "
              "604800.",
              TakeNumber<0, 604'800, &DaemonOptions::restart_wait_s>),
});

constexpr auto kLimitsFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--max-connections", "N",
              "Maximum number of connections of the daemon's own uid. Default: 256. Range: 1 to "
              "65536.",
              TakeNumber<1, 65536, &DaemonOptions::quotas, &Quotas::own, &UidLimits::connections>),
    ValueFlag(
        "--other-connections", "N",
        "Maximum number of connections of each other uid. Default: 8. Range: 1 to 65536.",
        TakeNumber<1, 65536, &DaemonOptions::quotas, &Quotas::others, &UidLimits::connections>),
    ValueFlag("--other-sequences", "N",
              "Maximum number of live sequences of each other uid. Default: 64. Range: 1 to "
              "1048576.",
              TakeNumber<1, kSequencesMax, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::sequences>),
    ValueFlag("--other-requests", "N",
              "Maximum number of requests in flight of each other uid. Default: 256. Range: 1 "
              "to 1048576.",
              TakeNumber<1, 1u << 20, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::requests_in_flight>),
    ValueFlag("--other-result-bytes", "BYTES",
              "Maximum size in bytes of the result arenas of each other uid. Default: 67108864 "
              "(64 MiB). Range: 65536 to 1099511627776.",
              TakeNumber<1u << 16, 1ull << 40, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::result_arena_bytes>),
    ValueFlag("--other-request-bytes", "BYTES",
              "Maximum size in bytes of the request arenas of each other uid. Default: 67108864 "
              "(64 MiB). Range: 65536 to 1099511627776.",
              TakeNumber<1u << 16, 1ull << 40, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::request_arena_bytes>),
    ValueFlag("--max-held-bytes", "BYTES",
              "Maximum size in bytes of uploads, exports, copied requests and waiting answers "
              "held for the daemon's own uid. Default: 4294967296 (4 GiB). Range: 1048576 to "
              "1125899906842624.",
              TakeNumber<1u << 20, 1ull << 50, &DaemonOptions::quotas, &Quotas::own,
                         &UidLimits::held_bytes>),
    ValueFlag("--other-held-bytes", "BYTES",
              "Maximum size in bytes of uploads, exports, copied requests and waiting answers "
              "held for each other uid. Default: 268435456 (256 MiB). Range: 1048576 to "
              "1125899906842624.",
              TakeNumber<1u << 20, 1ull << 50, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::held_bytes>),
    ValueFlag("--other-saved-bytes", "BYTES",
              "Maximum size in bytes of the saved states of each other uid. Default: 4294967296 "
              "(4 GiB). Range: 0 to 1125899906842624.",
              TakeNumber<0, 1ull << 50, &DaemonOptions::quotas, &Quotas::others,
                         &UidLimits::saved_bytes>),
    ValueFlag("--other-pool-share", "SHARE",
              "Part of the pool and of the files in --cache-dir that each other uid may hold. "
              "Default: 0.25. Range: 0 to 1.",
              TakeShare<&DaemonOptions::quotas, &Quotas::others, &UidLimits::pool_share>),
    ValueFlag("--reserve-share", "SHARE",
              "Part of the pool and of the files in --cache-dir that the daemon's own uid "
              "leaves free for other uids, if others may connect. Default: 0.05. Range: 0 to 1.",
              TakeShare<&DaemonOptions::quotas, &Quotas::reserve_share>),
});

constexpr auto kLogAndSafetyFlags = std::to_array<Flag<DaemonOptions>>({
    ValueFlag("--log-level", "LEVEL",
              "Least severe level that is logged: debug, info, warning, error or off. Default: "
              "info.",
              TakeLevel),
    SwitchFlag("--no-sandbox",
               "Do not restrict the files that kvd can reach or the system calls that it can "
               "make (docs/security.md).",
               TakeNegative<&DaemonOptions::is_sandboxed>),
    SwitchFlag("--allow-debug",
               "Allow processes of the same uid to debug kvd and to read its /proc files.",
               TakeSwitch<&DaemonOptions::allow_debug>),
});

constexpr auto kTopics = std::to_array<FlagTopic<DaemonOptions>>({
    {"Model and compute", kModelAndComputeFlags},
    {"Places", kPlacesFlags},
    {"Files", kFilesFlags},
    {"State", kStateFlags},
    {"Who may connect", kWhoMayConnectFlags},
    {"Steps and memory", kStepsAndMemoryFlags},
    {"Connections", kConnectionsFlags},
    {"Limits", kLimitsFlags},
    {"Log and safety", kLogAndSafetyFlags},
});

Status CheckTogether(const DaemonOptions& options) {
  if (!IsName(options.name)) {
    return Fail(Code::kInvalidArgument, "--name: ", Quoted(options.name),
                " is not 1 to 63 letters, digits, '_', '-' or '.', not beginning with '.'");
  }
  if (options.cache_directory && (!options.shares_prefixes || options.retained_max == 0)) {
    return Fail(
        Code::kInvalidArgument,
        "--cache-dir: cannot be combined with --retain 0 or --no-prefix-sharing, which switch "
        "off the prefixes that it stores");
  }
  if (options.forgets_only && !options.forgets) {
    return Fail(Code::kInvalidArgument, "--only: needs --forget");
  }
  if (options.forgets_only && options.state_directory) {
    return Fail(Code::kInvalidArgument,
                "--only: cannot be combined with --state-dir, which holds one state");
  }
  if (options.retunes && !options.engine.tunes) {
    return Fail(Code::kInvalidArgument, "--retune: cannot be combined with --no-tuning");
  }
  if (options.retunes && options.engine.deterministic) {
    return Fail(Code::kInvalidArgument,
                "--retune: cannot be combined with --deterministic, which depends on nothing that "
                "is measured");
  }
  if (options.prefill_chunk > options.engine.ubatch_tokens) {
    return Fail(Code::kInvalidArgument, "--prefill-chunk: ", options.prefill_chunk,
                " is more than --ubatch-size ", options.engine.ubatch_tokens);
  }
  return {};
}

std::string HelpText() {
  constexpr HelpLayout kLayout;
  std::string help =
      "kvd: one language model and its cached state, shared between local processes\n"
      "Usage: kvd [OPTIONS]\n\nOptions:\n";
  AppendHelpLine(kLayout, "-h,--help", "Print this help message and exit", help);
  AppendHelpLine(kLayout, "--version", "Display program version information and exit", help);
  for (const auto& [title, flags] : kTopics) {
    help.append("\n\n").append(title) += ":\n";
    for (const Flag<DaemonOptions>& flag : flags) AppendFlagHelp(kLayout, flag, help);
  }
  return help + "\n";
}

// Fills `options`. Returns the text to print if the command line asks for one.
Result<std::optional<std::string>> ReadFlags(int argument_count, const char* const* arguments,
                                             DaemonOptions& options,
                                             GivenFlags<DaemonOptions>& given) {
  FlagTable<DaemonOptions> table(true);
  for (const auto& topic : kTopics) table.Add(topic.flags);
  const auto take = [&](const Flag<DaemonOptions>& flag, FlagValue value) {
    given.Add(flag);
    const std::string names = FlagNames({}, flag.names, {}, {});
    value.name = names;
    return flag.take(options, value);
  };
  for (int i = 1; i < argument_count;) {
    const std::string_view argument = arguments[i];
    if (argument == "-h" || argument == "--help") return HelpText();
    if (argument == "--version") return Concat("kvd ", kVersionText, "\n");
    const char* const next = i + 1 < argument_count ? arguments[i + 1] : nullptr;
    KVD_TRY(const std::size_t used, table.Read(argument, next, take));
    if (used == 0) {
      return Fail(Code::kInvalidArgument, "The following argument was not expected: ", argument);
    }
    i += static_cast<int>(used);
  }
  return std::optional<std::string>();
}

}  // namespace

Parsed ParseOptions(int argument_count, const char* const* arguments) {
  DaemonOptions options;
  GivenFlags<DaemonOptions> given;
  KVD_TRY(std::optional<std::string> print, ReadFlags(argument_count, arguments, options, given));
  if (print) return PrintAndExit{*std::move(print)};
  if (!given.Has("--prefill-chunk")) {
    options.prefill_chunk = std::min(options.prefill_chunk, options.engine.ubatch_tokens);
  }
  KVD_CHECK_OK(CheckTogether(options));
  return options;
}

}  // namespace kvd
