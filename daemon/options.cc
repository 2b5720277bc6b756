// Every value is taken as text and parsed here, so that all refusals have one form: "-c: 0 is not a
// number from 1 to …". CLI11 knows one-letter short flags only: llama.cpp's -ctk, -ctv and -ub are
// respelled before it sees them.
#include "daemon/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
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

// The flags of one command line and the first value that was refused.
class FlagReader {
 public:
  explicit FlagReader(CLI::App& app) : app_(app) {}

  const std::optional<std::string>& refusal() const { return refusal_; }

  void Text(const std::string& names, std::string* value, const std::string& help) {
    Each(names, help, [this, names, value](const std::string& given) {
      if (given.empty()) return Refuse(names + ": the value is empty");
      if (given.find('\0') != std::string::npos) return Refuse(names + ": holds a zero byte");
      *value = given;
    });
  }
  void Text(const std::string& names, std::optional<std::string>* value, const std::string& help) {
    Each(names, help, [this, names, value](const std::string& given) {
      if (given.empty()) return Refuse(names + ": the value is empty");
      *value = given;
    });
  }
  template <class T>
  void Number(const std::string& names, T* value, std::uint64_t least, std::uint64_t most,
              const std::string& help) {
    Each(names, help, [this, names, value, least, most](const std::string& given) {
      if (const auto number = ParseNumber(given, least, most)) {
        *value = static_cast<T>(*number);
      } else {
        Refuse(RangeText(names, given,
                         "a number from " + std::to_string(least) + " to " + std::to_string(most)));
      }
    });
  }
  void Share(const std::string& names, double* value, const std::string& help) {
    Each(names, help, [this, names, value](const std::string& given) {
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
    Each(names, help, [this, names, values, most](const std::string& given) {
      if (const auto number = ParseNumber(given, 0, most)) {
        values->push_back(static_cast<std::uint32_t>(*number));
      } else {
        Refuse(RangeText(names, given, "a number from 0 to " + std::to_string(most)));
      }
    });
  }
  void CellType(const std::string& names, kernels::DataType* value, const std::string& help) {
    Each(names, help, [this, names, value](const std::string& given) {
      static constexpr std::array kTypes = {kernels::DataType::kF32, kernels::DataType::kF16,
                                            kernels::DataType::kBF16, kernels::DataType::kQ8_0};
      for (const kernels::DataType type : kTypes) {
        if (given == kernels::DataTypeName(type)) {
          *value = type;
          return;
        }
      }
      Refuse(RangeText(names, given, "f32, f16, bf16 or q8_0"));
    });
  }
  void Level(const std::string& names, LogLevel* value, const std::string& help) {
    Each(names, help, [this, value](const std::string& given) {
      if (auto level = ParseLogLevel(given)) {
        *value = *level;
      } else {
        Refuse(level.error().message);
      }
    });
  }

 private:
  template <class Take>
  void Each(const std::string& names, const std::string& help, const Take& take) {
    // "-c,--cells" in CLI11's spelling; every occurrence of the flag is taken, the last one stays.
    app_.add_option_function<std::vector<std::string>>(
            names,
            [take](const std::vector<std::string>& all) {
              for (const std::string& given : all) take(given);
            },
            help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
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
  void Refuse(std::string why) {
    if (!refusal_) refusal_ = std::move(why);
  }

  CLI::App& app_;
  std::optional<std::string> refusal_;
};

void DeclareFlags(FlagReader& flags, CLI::App& app, DaemonOptions& options) {
  EngineOptions& engine = options.engine;
  flags.Text("-m,--model", &engine.model_path, "model file (GGUF); the bundled model without it");
  flags.Number("-c,--cells,--ctx-size", &engine.cells, 1, kCellsMax,
               "tokens that the pool holds; the model's trained context without it");
  flags.Number("--state-slots", &engine.state_slots, 0, kSequencesMax,
               "recurrent states kept, for models that have them; what 1 GiB holds without it");
  flags.Number("--checkpoint-every", &engine.checkpoint_every, 0, kCheckpointEveryMax,
               "tokens between two checkpoints of a recurrent state; 0: at prompt ends only");
  flags.Number("--checkpoint-mb", &engine.checkpoint_mb, 0, kCheckpointMbMax,
               "bytes of recurrent state that checkpoints may hold; half of all without it");
  flags.Number("--max-sequences", &engine.sequence_capacity, 1, kSequencesMax, "live sequences");
  flags.Number("-t,--threads", &engine.threads, 0, kThreadsMax,
               "compute threads; 0: one for each processor that kvd may use");
  app.add_flag("--pin-threads", engine.pin_threads,
               "each compute thread stays on a processor of its own");
  flags.Number("--ubatch-size", &engine.ubatch_tokens, 1, kUbatchTokensMax,
               "tokens of one pass through the model (-ub)");
  flags.CellType("--cache-type-k", &engine.k_type, "type of K cells (-ctk)");
  flags.CellType("--cache-type-v", &engine.v_type, "type of V cells (-ctv)");
  flags.Text("--kernels", &engine.kernel_table, "instruction set to use: scalar, avx2, …");
  app.add_flag("--swa-full", engine.swa_full,
               "layers with a sliding window keep all cells, so that no edit is refused as "
               "window_lost");
  app.add_flag("--llama-shifts", engine.llama_shifts,
               "shift and divide positions as llama.cpp of August 2026 does (docs/decisions/0005)");
  app.add_flag("--deterministic", engine.deterministic,
               "logits of a token depend on its sequence alone, bit for bit");

  flags.Text("--name", &options.name, "of this daemon: NAME.sock in the runtime directory");
  flags.Text("--socket", &options.socket_path, "path of the socket instead");
  flags.Text("--state-dir", &options.state_directory,
             "private directory of the cached state, which stays there when kvd ends");
  flags.Text("--store", &options.store,
             "directory of the sequences that clients save; without it they can save none");
  flags.Text("--cache-dir", &options.cache_directory,
             "directory of the prompt cache on disk, which daemons of one user may share");
  flags.Number("--cache-mb", &options.cache_mb, 1, kCacheMbMax,
               "MiB that the files in --cache-dir may hold; the oldest go for others");
  flags.Number("--cache-min-tokens", &options.cache_tokens_min, PrefixCache::kCellsMin,
               kCheckpointEveryMax, "shorter prompts are not written to --cache-dir");
  app.add_flag("--forget", options.forgets,
               "remove the cached state of this --state-dir or --name and end");
  app.add_flag(
      "--verify-pool", engine.verify_pool,
      "look at every cell found at the start and drop sequences with a number that is none");
  flags.Numbers("--allow-uid", &options.allowed_uids, 0xfffffffeu, "may connect too; repeatable");
  flags.Text("--socket-group", &options.socket_group, "its members may connect too");
  flags.Number("--defrag-threshold", &options.defrag_threshold, 0, 100,
               "defragment when more percent of the used blocks is waste; 0: never by itself");
  flags.Number("--prefill-chunk", &options.prefill_chunk, 1, kUbatchTokensMax,
               "prompt tokens of one step beside decoding, at most");
  flags.Number("--max-step-ms", &options.max_step_ms, 0, 60'000,
               "how long a step beside decoding should last, with the slices of divisions, encoded "
               "texts and "
               "replays behind it: prompts and those then get smaller chunks; 0: no limit");
  app.add_flag("!--no-prefix-sharing", options.shares_prefixes,
               "prompts take nothing from other sequences");
  flags.Number(
      "--retain", &options.retained_max, 0, std::numeric_limits<std::uint32_t>::max(),
      "sequences that stay as prefixes when their clients let them go, until their room is "
      "needed; all without it");
  flags.Number("--workers", &options.workers, 1, kThreadsMax,
               "calls on text and files that run at a time; those that take long take turns");
  flags.Number("--hello-timeout-ms", &options.hello_timeout_ms, 1, 600'000,
               "time that a connection has to introduce itself");
  flags.Number("--reconnect-wait-ms", &options.reconnect_wait_ms, 0, 3'600'000,
               "time that the sequences of a client wait for it when its connection is lost");
  flags.Number("--restart-wait", &options.restart_wait_s, 0, 604'800,
               "seconds that they wait for it when this daemon finds them at its start");

  UidLimits& own = options.quotas.own;
  UidLimits& others = options.quotas.others;
  flags.Number("--max-connections", &own.connections, 1, 65536, "of the daemon's own uid");
  flags.Number("--other-connections", &others.connections, 1, 65536, "of every other uid");
  flags.Number("--other-sequences", &others.sequences, 1, kSequencesMax, "of every other uid");
  flags.Number("--other-requests", &others.requests_in_flight, 1, 1u << 20, "of every other uid");
  flags.Number("--other-result-bytes", &others.result_arena_bytes, 1u << 16, 1ull << 40,
               "result arenas of every other uid");
  flags.Number("--other-request-bytes", &others.request_arena_bytes, 1u << 16, 1ull << 40,
               "request arenas of every other uid");
  flags.Number("--max-held-bytes", &own.held_bytes, 1u << 20, 1ull << 50,
               "uploads, exports, requests and answers held for the daemon's own uid");
  flags.Number("--other-held-bytes", &others.held_bytes, 1u << 20, 1ull << 50,
               "uploads, exports, requests and answers held for every other uid");
  flags.Number("--other-saved-bytes", &others.saved_bytes, 0, 1ull << 50,
               "saved states of every other uid");
  flags.Share("--other-pool-share", &others.pool_share,
              "of the pool and of the files in --cache-dir, for every other uid");
  flags.Share(
      "--reserve-share", &options.quotas.reserve_share,
      "of the pool and of the files in --cache-dir, kept for others where others may connect");

  flags.Level("--log-level", &options.log_level, "debug, info, warning, error, off");
  app.add_flag("!--no-sandbox", options.is_sandboxed,
               "restrict neither the files that kvd can reach nor its system calls "
               "(docs/security.md)");
  app.add_flag("--allow-debug", options.allow_debug,
               "leave the process open to debuggers and /proc readers of the same uid");
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
  // CLI11 takes a vector from its back.
  std::ranges::reverse(respelled);
  return respelled;
}

Status CheckTogether(const DaemonOptions& options) {
  if (!IsSafeName(options.name)) {
    return Fail(Code::kInvalidArgument,
                "--name: " + Quoted(options.name) +
                    " is not 1 to 63 letters, digits, '_', '-' or '.', the first no '.'");
  }
  if (options.cache_directory && (!options.shares_prefixes || options.retained_max == 0)) {
    return Fail(Code::kInvalidArgument,
                "--cache-dir: keeps retained prefixes for prompts to share, which --retain 0 and "
                "--no-prefix-sharing switch off");
  }
  if (options.prefill_chunk > options.engine.ubatch_tokens) {
    return Fail(Code::kInvalidArgument,
                "--prefill-chunk: " + std::to_string(options.prefill_chunk) +
                    " is more than --ubatch-size " + std::to_string(options.engine.ubatch_tokens));
  }
  return {};
}

}  // namespace

bool IsSafeName(std::string_view name) {
  if (name.empty() || name.size() > 63 || name.front() == '.') return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

Parsed ParseOptions(int argument_count, const char* const* arguments) {
  DaemonOptions options;
  CLI::App app("kvd: one language model and its cached state, shared between local processes",
               "kvd");
  app.set_version_flag("--version", std::string("kvd ") + kVersionText);
  FlagReader flags(app);
  bool chunk_given = false;
  try {
    DeclareFlags(flags, app, options);
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
