// The flags of the model, its context and the daemon that serves it.
#include <array>

#include "http/options/parse_flags.h"

namespace kvd::http {
namespace {

constexpr std::int64_t kCellsMax = 1ll << 31;
constexpr std::string_view kCellTypes = "f32 f16 bf16 q8_0 q4_0";

Status TakeDaemon(Settings& settings, const FlagValue& value) {
  const std::size_t equals = value.text.find('=');
  NamedDaemon daemon{.name = std::string(value.text.substr(0, equals)), .alias = {}};
  if (equals != std::string_view::npos) daemon.alias = value.text.substr(equals + 1);
  if (daemon.name.empty() || (equals != std::string_view::npos && daemon.alias.empty())) {
    return value.Wrong("NAME or NAME=ALIAS");
  }
  settings.daemons.push_back(std::move(daemon));
  return {};
}

Status TakeParallel(Settings& settings, const FlagValue& value) {
  KVD_TRY(const std::int64_t count, value.Integer(-1, kSlotsMax));
  if (count == 0) return value.Wrong("-1 or a number from 1");
  // -1 and no flag mean the same: ParseFlags then chooses a unified context, as llama-server does.
  settings.slot_count = count < 0 ? 0 : static_cast<std::uint32_t>(count);
  return {};
}

Status TakeCellType(std::string& type, const FlagValue& value) {
  KVD_CHECK_OK(value.Choice(kCellTypes));
  type = value.text;
  return {};
}

constexpr std::array kModelFlags = {
    Flag{.names = "-m --model",
         .argument = "FNAME",
         .environment = "LLAMA_ARG_MODEL",
         .help = "model file (GGUF); default: the model that is linked into kvd",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.model_path); }},
    Flag{.names = "-hf -hfr --hf-repo",
         .argument = "USER/MODEL[:QUANT]",
         .environment = "LLAMA_ARG_HF_REPO",
         .help = "model of Hugging Face that llama.cpp's cache holds; nothing is downloaded",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.hub_repository); }},
    Flag{.names = "-hff --hf-file",
         .argument = "FILE",
         .environment = "LLAMA_ARG_HF_FILE",
         .help = "file of the repository; default: by QUANT, else Q4_K_M, Q8_0 or the first one",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.hub_file); }},
    Flag{.names = "-mu --model-url",
         .argument = "URL",
         .environment = "LLAMA_ARG_MODEL_URL",
         .help = "model that llama.cpp has downloaded from this address into its cache",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.model_url); }},
    Flag{.names = "--daemon",
         .argument = "NAME[=ALIAS]",
         .help = "serve the running daemon NAME for requests whose \"model\" is ALIAS or NAME; may "
                 "be repeated",
         .take = TakeDaemon},
    Flag{.names = "-a --alias",
         .argument = "NAMES",
         .environment = "LLAMA_ARG_ALIAS",
         .help = "names of the model in requests and replies, between commas",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           for (std::string& name : value.List()) settings.aliases.push_back(std::move(name));
           return {};
         }},
    Flag{.names = "--tags",
         .argument = "TAGS",
         .environment = "LLAMA_ARG_TAGS",
         .help = "tags that GET /v1/models shows, between commas",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           for (std::string& tag : value.List()) settings.tags.push_back(std::move(tag));
           return {};
         }},
    Flag{.names = "-c --ctx-size",
         .argument = "N",
         .environment = "LLAMA_ARG_CTX_SIZE",
         .help = "tokens of all slots together, without --kv-unified divided between them; 0: the "
                 "context that the model was trained for [0]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.context_cells, 0, kCellsMax);
             }},
    Flag{.names = "-np --parallel",
         .argument = "N",
         .environment = "LLAMA_ARG_N_PARALLEL",
         .help = "number of slots; -1: 4 slots with --kv-unified [-1]",
         .take = TakeParallel},
    Flag{.names = "-kvu --kv-unified",
         .negatives = "-no-kvu --no-kv-unified",
         .environment = "LLAMA_ARG_KV_UNIFIED",
         .help = "each slot may use the whole context",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.is_unified = value.is_on;
           return {};
         }},
    Flag{.names = "-t --threads",
         .argument = "N",
         .environment = "LLAMA_ARG_THREADS",
         .help = "number of compute threads; 0 or less: one for each processor [-1]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(const std::int64_t threads, value.Integer(-1, 256));
           settings.threads = threads < 0 ? 0 : static_cast<std::uint32_t>(threads);
           return {};
         }},
    Flag{.names = "-b --batch-size",
         .argument = "N",
         .environment = "LLAMA_ARG_BATCH",
         .help = "another limit of --ubatch-size: the smaller one holds [2048]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.batch_tokens, 1, 1 << 20);
             }},
    Flag{.names = "-ub --ubatch-size",
         .argument = "N",
         .environment = "LLAMA_ARG_UBATCH",
         .help = "maximum number of tokens in one pass through the model [512]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.ubatch_tokens, 1, 16384);
             }},
    Flag{.names = "-ctk --cache-type-k",
         .argument = "TYPE",
         .environment = "LLAMA_ARG_CACHE_TYPE_K",
         .help = "number type of K: f32, f16, bf16, q8_0 or q4_0 [f16]",
         .take = [](Settings& settings,
                    const FlagValue& value) { return TakeCellType(settings.k_type, value); }},
    Flag{.names = "-ctv --cache-type-v",
         .argument = "TYPE",
         .environment = "LLAMA_ARG_CACHE_TYPE_V",
         .help = "number type of V: f32, f16, bf16, q8_0 or q4_0 [f16]",
         .take = [](Settings& settings,
                    const FlagValue& value) { return TakeCellType(settings.v_type, value); }},
    Flag{.names = "--swa-full",
         .environment = "LLAMA_ARG_SWA_FULL",
         .help = "keep all cells in layers with a sliding window",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.keeps_windows = true;
           return {};
         }},
    Flag{.names = "--mlock",
         .environment = "LLAMA_ARG_MLOCK",
         .help = "lock the weights in memory",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.locks_weights = true;
           return {};
         }},
    Flag{.names = "-lm --load-mode",
         .argument = "MODE",
         .environment = "LLAMA_ARG_LOAD_MODE",
         .help = "mlock: as --mlock; other modes have no effect",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.locks_weights = value.text.find("mlock") != std::string_view::npos;
           return {};
         }},
    Flag{.names = "--deterministic",
         .help = "an answer depends, bit for bit, only on its request and not on other requests",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.is_deterministic = true;
           return {};
         }},
    Flag{.names = "--state-dir",
         .argument = "DIR",
         .help = "private directory of sessions, stored responses and logs; default: a directory "
                 "for the model in $XDG_STATE_HOME/kvd-http (docs/http.md)",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.state_directory); }},
    Flag{.names = "--keep-state",
         .help = "keep the cache of a daemon that kvd-http has started when both end",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.keeps_state = true;
           return {};
         }},
};

}  // namespace

std::span<const Flag> ModelFlags() { return kModelFlags; }

}  // namespace kvd::http
