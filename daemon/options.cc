// CLI11 passes every value as text, and this file parses the text, so that all errors have one
// form:
// "-c: 0 is not a number from 1 to …". CLI11 supports only one-letter short flags, so llama.cpp's
// -ctk, -ctv and -ub are replaced by their long forms first.
#include "daemon/options.h"
#include "base/help_formatter.h"
#include "base/name.h"
#include "base/text.h"
#include "kernels/cell_types.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <string_view>

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

std::string RangeText(std::string_view flag, std::string_view given, const std::string& range) {
  return std::string(flag) + ": " + Quoted(given) + " is not " + range;
}

// Declares and parses the flags of one command line, and keeps the first error.
class FlagReader {
 public:
  explicit FlagReader(CLI::App& app) : app_(app) {}

  const std::optional<std::string>& refusal() const { return refusal_; }

  // The flags that are declared after this call are shown under the heading `group` of the help
  // text.
  void Group(const std::string& group) { group_ = group; }
  void Switch(const std::string& names, bool& value, const std::string& help) {
    app_.add_flag(names, value, help)->group(group_);
  }
  // `type`: the name of the flag's value in the help text.
  void Text(const std::string& names, const std::string& type, std::string* value,
            const std::string& help) {
    Each(names, type, help, [this, names, value](const std::string& given) {
      if (given.empty()) return Refuse(names + ": the value is empty");
      if (given.find('\0') != std::string::npos) return Refuse(names + ": contains a zero byte");
      *value = given;
    });
  }
  void Text(const std::string& names, const std::string& type, std::optional<std::string>* value,
            const std::string& help) {
    Each(names, type, help, [this, names, value](const std::string& given) {
      if (given.empty()) return Refuse(names + ": the value is empty");
      *value = given;
    });
  }
  template <class T>
  void Number(const std::string& names, T* value, std::uint64_t least, std::uint64_t most,
              const std::string& help) {
    Each(names, UnitOf(names), help, [this, names, value, least, most](const std::string& given) {
      if (const auto number = ParseNumber(given, least, most)) {
        *value = static_cast<T>(*number);
      } else {
        Refuse(RangeText(names, given, Concat("a number from ", least, " to ", most)));
      }
    });
  }
  void Share(const std::string& names, double* value, const std::string& help) {
    Each(names, "SHARE", help, [this, names, value](const std::string& given) {
      double share = 0;
      const auto end = given.data() + given.size();
      const auto parsed = std::from_chars(given.data(), end, share);
      if (parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(share) && share >= 0 &&
          share <= 1) {
        *value = share;
      } else {
        Refuse(RangeText(names, given, "a share from 0 to 1"));
      }
    });
  }
  void Numbers(const std::string& names, std::vector<std::uint32_t>* values, std::uint64_t most,
               const std::string& help) {
    Each(names, "UID", help, [this, names, values, most](const std::string& given) {
      if (const auto number = ParseNumber(given, 0, most)) {
        values->push_back(static_cast<std::uint32_t>(*number));
      } else {
        Refuse(RangeText(names, given, Concat("a number from 0 to ", most)));
      }
    });
  }
  void CellType(const std::string& names, kernels::DataType* value, const std::string& help) {
    Each(names, "TYPE", help, [this, names, value](const std::string& given) {
      for (const kernels::DataType type : kernels::kCellTypes) {
        if (given == kernels::DataTypeName(type)) {
          *value = type;
          return;
        }
      }
      Refuse(RangeText(names, given, "f32, f16, bf16, q8_0 or q4_0"));
    });
  }
  void PrefetchMode(const std::string& names, Prefetch* value, const std::string& help) {
    Each(names, "MODE", help, [this, names, value](const std::string& given) {
      if (given == "on") {
        *value = Prefetch::kOn;
      } else if (given == "off") {
        *value = Prefetch::kOff;
      } else if (given == "auto") {
        *value = Prefetch::kAuto;
      } else {
        Refuse(RangeText(names, given, "on, off or auto"));
      }
    });
  }
  void Level(const std::string& names, LogLevel* value, const std::string& help) {
    Each(names, "LEVEL", help, [this, value](const std::string& given) {
      if (auto level = ParseLogLevel(given)) {
        *value = *level;
      } else {
        Refuse(level.error().message);
      }
    });
  }

 private:
  template <class Take>
  void Each(const std::string& names, const std::string& type, const std::string& help,
            const Take& take) {
    // `names` is in CLI11's form, "-c,--cells". The occurrences of a flag are parsed in order, so
    // if a flag with a single value is given several times, the last value is used.
    app_.add_option_function<std::vector<std::string>>(
            names,
            [take](const std::vector<std::string>& all) {
              for (const std::string& given : all) take(given);
            },
            help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name(type)
        ->group(group_)
        ->expected(1)
        ->allow_extra_args(false);
  }
  static std::optional<std::uint64_t> ParseNumber(std::string_view text, std::uint64_t least,
                                                  std::uint64_t most) {
    std::uint64_t number = 0;
    const auto end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number < least || number > most) {
      return std::nullopt;
    }
    return number;
  }
  // Returns the name of a number's unit in the help text, derived from the end of the flag's name.
  static std::string UnitOf(std::string_view names) {
    if (names.ends_with("-ms")) return "MS";
    if (names.ends_with("-mb")) return "MIB";
    if (names.ends_with("-bytes")) return "BYTES";
    if (names.ends_with("-wait")) return "SECONDS";
    if (names.ends_with("-threshold")) return "PERCENT";
    return "N";
  }
  void Refuse(std::string why) {
    if (!refusal_) refusal_ = std::move(why);
  }

  CLI::App& app_;
  std::optional<std::string> refusal_;
  std::string group_ = "Options";
};

void DeclareFlags(FlagReader& flags, DaemonOptions& options) {
  EngineOptions& engine = options.engine;
  flags.Group("Model and compute");
  flags.Text("-m,--model", "FILE", &engine.model_path,
             "Model file (GGUF), or the first part of a model in several files. Default: the "
             "bundled model.");
  flags.PrefetchMode("--prefetch", &options.prefetch,
                     "Read all weights into memory: on: before clients are served; auto: while "
                     "clients are served, if the weights fit into free memory; off: each page "
                     "when it is first used. Default: auto.");
  flags.Switch("--mlock", options.locks_weights,
               "Lock the weights in memory. With --prefetch auto they are all read before clients "
               "are served. If the system refuses, kvd warns and serves without the lock.");
  flags.Number("-c,--cells,--ctx-size", &engine.cells, 1, kCellsMax,
               "Number of tokens that the pool can hold. Default: the model's trained context, "
               "at least 4096. Range: 1 to 4294967296.");
  flags.Number("--state-slots", &engine.state_slots, 0, kSequencesMax,
               "Number of recurrent states to keep, for models that have them. 0: the number "
               "that fits into 1 GiB, from 16 to 1024. Default: 0. Range: 0 to 1048576.");
  flags.Number("--checkpoint-every", &engine.checkpoint_every, 0, kCheckpointEveryMax,
               "Distance in tokens between two checkpoints of a recurrent state. 0: checkpoints "
               "only at the ends of prompts and at forks. Default: 512. Range: 0 to 1073741824.");
  flags.Number("--checkpoint-mb", &engine.checkpoint_mb, 0, kCheckpointMbMax,
               "Maximum size in MiB of the recurrent states kept as checkpoints. 0: half of all "
               "state slots. Default: 0. Range: 0 to 16777216.");
  flags.Number("--max-sequences", &engine.sequence_capacity, 1, kSequencesMax,
               "Maximum number of live sequences of all users together. Default: 16384. Range: 1 "
               "to 1048576.");
  flags.Number("-t,--threads", &engine.threads, 0, kThreadsMax,
               "Number of compute threads. 0: one for each processor that kvd may use. Default: "
               "0. Range: 0 to 256.");
  flags.Switch("--pin-threads", engine.pin_threads,
               "Bind each compute thread to its own processor.");
  flags.Number("--ubatch-size", &engine.ubatch_tokens, 1, kUbatchTokensMax,
               "Maximum number of tokens in one pass through the model (short form: -ub). "
               "Default: 512. Range: 1 to 16384.");
  flags.CellType(
      "--cache-type-k", &engine.k_type,
      "Number type of the K cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctk). Default: "
      "f16.");
  flags.CellType(
      "--cache-type-v", &engine.v_type,
      "Number type of the V cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctv). Default: "
      "f16.");
  flags.Text("--kernels", "SET", &engine.kernel_table,
             "Instruction set to use: scalar, avx2, avx512 or amx. Default: the value of "
             "KVD_KERNELS, or else the best that the machine supports.");
  flags.Switch("--swa-full", engine.swa_full,
               "Keep all cells in layers with a sliding window, so that no edit is refused as "
               "window_lost.");
  flags.Switch("--llama-shifts", engine.llama_shifts,
               "Shift and divide positions in the same way as llama.cpp of August 2026 "
               "(docs/decisions/0005).");
  flags.Switch("--deterministic", engine.deterministic,
               "Compute the logits of a token so that they depend, bit for bit, only on its "
               "sequence and not on the other requests.");
  flags.Switch("!--no-tuning", engine.tunes,
               "Use the default forms of matrix products: neither measure which are faster while "
               "idle nor use what an earlier run has measured (docs/tuning.md).");
  flags.Switch("--retune", options.retunes,
               "Measure at the start, before clients are served, which forms of matrix products "
               "are faster, and use and keep the result.");

  flags.Group("Places");
  flags.Text("--name", "NAME", &options.name,
             "Name of this daemon, from which the default paths of its socket and its state "
             "are made. Default: default. Range: 1 to 63 letters, digits, '_', '-' or '.', not "
             "beginning with '.'.");
  flags.Text("--socket", "PATH", &options.socket_path,
             "Path of the socket. Default: NAME.sock in $XDG_RUNTIME_DIR/kvd, else for root in "
             "/run/kvd, else in kvd-UID in the temporary directory. A socket passed by a service "
             "manager (LISTEN_FDS) is used instead.");
  flags.Text("--state-dir", "DIR", &options.state_directory,
             "Private directory of the cached state, which stays there when kvd ends, unless it "
             "holds no sequences. Default: a directory for NAME on a tmpfs, or in the temporary "
             "directory if no tmpfs has room.");
  flags.Group("Files");
  flags.Text("--store", "DIR", &options.store,
             "Directory in which clients can save sequences. Default: none; clients cannot "
             "save.");
  flags.Text("--cache-dir", "DIR", &options.cache_directory,
             "Directory of the prompt cache on disk, which several daemons of one user may "
             "share. Default: none; prompts are not cached on disk.");
  flags.Number("--cache-mb", &options.cache_mb, 1, kCacheMbMax,
               "Maximum size in MiB of all files in --cache-dir together; the oldest entries are "
               "removed to make room. Default: 4096. Range: 1 to 1073741824.");
  flags.Number("--cache-min-tokens", &options.cache_tokens_min, PrefixCache::kCellsMin,
               kCheckpointEveryMax,
               "Minimum length in tokens of the prompts that are written to --cache-dir. "
               "Default: 64. Range: 16 to 1073741824.");
  flags.Group("State");
  flags.Switch("--forget", options.forgets,
               "Remove the cached state in --state-dir, or in the default places of --name, and "
               "exit.");
  flags.Switch("--verify-pool", engine.verify_pool,
               "At the start, check all numbers in the cells and recurrent states of an earlier "
               "run, and drop sequences with a number that is not finite.");
  flags.Switch("--describe", options.describes,
               "Print what the model's file says, such as the trained context and the bytes of a "
               "cell, and exit.");
  flags.Group("Who may connect");
  flags.Numbers("--allow-uid", &options.allowed_uids, 0xfffffffeu,
                "User id (a number) that may connect in addition to the daemon's own. Can be "
                "given several times. Default: none. Range: 0 to 4294967294.");
  flags.Text("--socket-group", "GROUP", &options.socket_group,
             "Group (name or number) whose members may connect in addition to the daemon's own "
             "user. Default: none.");
  flags.Number("--tenant-uid", &options.tenant_uid, 0, 0xfffffffeu,
               "User id (a number) whose clients may name a tenant for which they act. Each tenant "
               "has its own sequences, names, saved states and limits. Default: the daemon's own. "
               "Range: 0 to 4294967294.");
  flags.Text("--tenants", "FILE", &options.tenants_path,
             "File of the tenants' names and limits, which SIGHUP reads again. Default: none; each "
             "tenant has the limits of another uid.");
  flags.Group("Steps and memory");
  flags.Number("--defrag-threshold", &options.defrag_threshold, 0, 100,
               "Start a defragmentation when more than this percentage of the used blocks is "
               "waste. 0: never automatically. Default: 30. Range: 0 to 100.");
  flags.Number("--prefill-chunk", &options.prefill_chunk, 1, kUbatchTokensMax,
               "Maximum number of prompt tokens in a step that also decodes. Default: 256, or "
               "--ubatch-size if that is less. Range: 1 to --ubatch-size.");
  flags.Number("--max-step-ms", &options.max_step_ms, 0, 60'000,
               "Target duration in milliseconds of a step that also decodes, including the "
               "slices of divisions, encoded texts and replays after it. Prompts and this work "
               "get smaller chunks to keep it. 0: no limit. Default: 200. Range: 0 to 60000.");
  flags.Switch("!--no-prefix-sharing", options.shares_prefixes,
               "Compute every prompt completely; prompts do not reuse cells of other sequences.");
  flags.Number("--retain", &options.retained_max, 0, std::numeric_limits<std::uint32_t>::max(),
               "Maximum number of sequences that stay in the pool as prefixes after their "
               "clients have released them, until their room is needed. 0: none. Default: no "
               "limit. Range: 0 to 4294967295.");
  flags.Number("--workers", &options.workers, 1, kThreadsMax,
               "Maximum number of calls on text and files that run at the same time; long calls "
               "take turns. Default: 2. Range: 1 to 256.");
  flags.Group("Connections");
  flags.Number("--hello-timeout-ms", &options.hello_timeout_ms, 1, 600'000,
               "Time in milliseconds within which a new connection must send its hello. Default: "
               "5000. Range: 1 to 600000.");
  flags.Number("--reconnect-wait-ms", &options.reconnect_wait_ms, 0, 3'600'000,
               "Time in milliseconds for which a client's sequences are kept for it after its "
               "connection is lost. 0: they are released at once. Default: 2000. Range: 0 to "
               "3600000.");
  flags.Number("--restart-wait", &options.restart_wait_s, 0, 604'800,
               "Time in seconds for which the sequences of clients that were connected to an "
               "earlier daemon are kept for them after the start. Default: 600. Range: 0 to "
               "604800.");

  UidLimits& own = options.quotas.own;
  UidLimits& others = options.quotas.others;
  flags.Group("Limits");
  flags.Number("--max-connections", &own.connections, 1, 65536,
               "Maximum number of connections of the daemon's own uid. Default: 256. Range: 1 to "
               "65536.");
  flags.Number("--other-connections", &others.connections, 1, 65536,
               "Maximum number of connections of each other uid. Default: 8. Range: 1 to 65536.");
  flags.Number("--other-sequences", &others.sequences, 1, kSequencesMax,
               "Maximum number of live sequences of each other uid. Default: 64. Range: 1 to "
               "1048576.");
  flags.Number("--other-requests", &others.requests_in_flight, 1, 1u << 20,
               "Maximum number of requests in flight of each other uid. Default: 256. Range: 1 "
               "to 1048576.");
  flags.Number("--other-result-bytes", &others.result_arena_bytes, 1u << 16, 1ull << 40,
               "Maximum size in bytes of the result arenas of each other uid. Default: 67108864 "
               "(64 MiB). Range: 65536 to 1099511627776.");
  flags.Number("--other-request-bytes", &others.request_arena_bytes, 1u << 16, 1ull << 40,
               "Maximum size in bytes of the request arenas of each other uid. Default: 67108864 "
               "(64 MiB). Range: 65536 to 1099511627776.");
  flags.Number("--max-held-bytes", &own.held_bytes, 1u << 20, 1ull << 50,
               "Maximum size in bytes of uploads, exports, copied requests and waiting answers "
               "held for the daemon's own uid. Default: 4294967296 (4 GiB). Range: 1048576 to "
               "1125899906842624.");
  flags.Number("--other-held-bytes", &others.held_bytes, 1u << 20, 1ull << 50,
               "Maximum size in bytes of uploads, exports, copied requests and waiting answers "
               "held for each other uid. Default: 268435456 (256 MiB). Range: 1048576 to "
               "1125899906842624.");
  flags.Number("--other-saved-bytes", &others.saved_bytes, 0, 1ull << 50,
               "Maximum size in bytes of the saved states of each other uid. Default: 4294967296 "
               "(4 GiB). Range: 0 to 1125899906842624.");
  flags.Share("--other-pool-share", &others.pool_share,
              "Part of the pool and of the files in --cache-dir that each other uid may hold. "
              "Default: 0.25. Range: 0 to 1.");
  flags.Share("--reserve-share", &options.quotas.reserve_share,
              "Part of the pool and of the files in --cache-dir that the daemon's own uid "
              "leaves free for other uids, if others may connect. Default: 0.05. Range: 0 to 1.");

  flags.Group("Log and safety");
  flags.Level("--log-level", &options.log_level,
              "Least severe level that is logged: debug, info, warning, error or off. Default: "
              "info.");
  flags.Switch("!--no-sandbox", options.is_sandboxed,
               "Do not restrict the files that kvd can reach or the system calls that it can "
               "make (docs/security.md).");
  flags.Switch("--allow-debug", options.allow_debug,
               "Allow processes of the same uid to debug kvd and to read its /proc files.");
}

std::vector<std::string> Respell(int argument_count, const char* const* arguments) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-ub", "--ubatch-size"}}};
  std::vector<std::string> respelled;
  for (int i = 1; i < argument_count; ++i) {
    std::string argument = arguments[i];
    for (const auto& [given, full] : kShort) {
      if (argument == given || argument.starts_with(std::string(given) + "=")) {
        argument.replace(0, given.size(), full);
        break;
      }
    }
    respelled.push_back(std::move(argument));
  }
  // CLI11 parses the arguments of a vector from its end.
  std::ranges::reverse(respelled);
  return respelled;
}

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

}  // namespace

Parsed ParseOptions(int argument_count, const char* const* arguments) {
  DaemonOptions options;
  CLI::App app("kvd: one language model and its cached state, shared between local processes",
               "kvd");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("kvd ") + kVersionText);
  FlagReader flags(app);
  bool chunk_given = false;
  try {
    DeclareFlags(flags, options);
    app.parse(Respell(argument_count, arguments));
    chunk_given = app.count("--prefill-chunk") > 0;
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app.help()};
  } catch (const CLI::CallForVersion&) {
    return PrintAndExit{app.version() + "\n"};
  } catch (const CLI::Error& error) {
    return Fail(Code::kInvalidArgument, error.what());
  }
  if (flags.refusal()) return Fail(Code::kInvalidArgument, *flags.refusal());
  if (!chunk_given) {
    options.prefill_chunk = std::min(options.prefill_chunk, options.engine.ubatch_tokens);
  }
  KVD_CHECK_OK(CheckTogether(options));
  return options;
}

}  // namespace kvd
