// Settings: the validated command line of kvd-http. Flags have llama-server's names and meanings
// (docs/http.md lists them). Settings is a plain value that main makes once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/sampling_params.h"
#include "shm/wire_generate.h"
#include "text/value.h"

namespace kvd::http {

// llama.cpp's number for "a random seed" (LLAMA_DEFAULT_SEED).
inline constexpr std::uint32_t kRandomSeed = 0xffffffffu;

inline constexpr std::uint32_t kSlotsDefault = 4;
inline constexpr std::uint32_t kSlotsMax = 1024;
// llama-server rounds the context, and that of a slot, up to a multiple of this number.
inline constexpr std::uint32_t kContextStep = 256;

// What a request that does not name a field gets.
struct GenerationDefaults {
  SamplingParams sampling = kDefaultSampling;
  std::uint32_t seed = kRandomSeed;
  std::int32_t predict_max = -1;  // -1: until an end token or the end of the context
  std::int32_t keep = 0;          // tokens that a context shift keeps at the beginning; -1: all
  bool ignores_eos = false;
  bool caches_prompt = true;
  std::vector<wire::LogitBias> biases;
  std::optional<std::vector<std::string>> breakers;  // DRY's; nullopt: the default ones
  bool reads_escapes = true;   // --escape: of breakers; ParseFlags has replaced them
  std::string grammar;         // GBNF; empty: none
  Value json_schema;           // instead of a grammar; missing: none
  bool shows_special = false;  // --special
};

enum class ReasoningFormat : std::uint8_t {
  kAuto,            // as kDeepseek
  kNone,            // reasoning stays in the content
  kDeepseek,        // reasoning is in reasoning_content
  kDeepseekLegacy,  // in both
};

// A daemon that serves requests whose "model" is its name or alias (--daemon NAME[=ALIAS]).
struct NamedDaemon {
  std::string name;   // of the daemon, as kvd --name
  std::string alias;  // empty: the name
};

struct Settings {
  // Where requests come from.
  std::string host = "127.0.0.1";  // an address, a host name, or "unix:PATH"
  std::uint16_t port = 8080;       // 0: one that is free
  std::string key_file;            // TLS: both or none
  std::string certificate_file;
  std::vector<std::string> api_keys;
  std::string tenants_path;  // empty: every key is the same tenant
  std::string make_key;      // --make-key: the tenant for which a key is printed; empty: serve
  bool no_auth = false;      // an address other than loopback may be served without keys
  std::optional<std::string> cors_origins;   // between commas
  std::vector<std::string> trusted_proxies;  // --trusted-proxy: networks, as they were given
  std::string path_prefix;                   // --api-prefix: stands before every path
  std::chrono::seconds io_timeout{3600};     // --timeout: of reading and writing
  std::chrono::seconds ping_interval{30};    // of comments in a silent stream; negative: none

  // What is served.
  std::string model_path;      // empty: the bundled model, unless daemons are named
  std::string model_url;       // where llama.cpp has downloaded the model from; empty: nowhere
  std::string hub_repository;  // -hf USER/MODEL[:QUANT]; empty: none
  std::string hub_file;        // -hff: the file of the repository; empty: by QUANT
  std::vector<NamedDaemon> daemons;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  std::string state_directory;  // empty: the default place
  bool keeps_state = false;     // the cache of a daemon that kvd-http started survives its end

  // The context and the daemon that kvd-http starts.
  // -c: of all slots together, a multiple of slot_count * kContextStep unless is_unified; 0: each
  // slot has the context that the model was trained for.
  std::uint32_t context_cells = 0;
  std::uint32_t slot_count = kSlotsDefault;  // -np
  bool is_unified = false;                   // --kv-unified: each slot may have the whole context
  std::uint32_t threads = 0;                 // 0: as the daemon chooses
  std::uint32_t batch_tokens = 0;            // 0: no limit beside ubatch_tokens
  std::uint32_t ubatch_tokens = 0;           // 0: as the daemon chooses
  std::string k_type;                        // empty: as the daemon chooses
  std::string v_type;
  bool keeps_windows = false;  // --swa-full
  bool locks_weights = false;  // --mlock
  bool is_deterministic = false;
  std::vector<std::string> daemon_arguments;  // further flags of kvd, after "--"

  // What is offered.
  bool serves_page = true;      // GET /
  bool serves_slots = true;     // GET /slots
  bool serves_metrics = false;  // GET /metrics
  bool changes_props = false;   // POST /props
  bool is_embedder = false;     // --embeddings
  bool is_reranker = false;     // --reranking
  std::string pooling;  // none, mean, cls, last or rank; empty: as the model's file declares
  std::int32_t embedding_norm = 2;  // --embd-normalize; -1: none
  bool shifts_context = false;
  // --slot-save-bytes: of the slot files of a tenant; without --tenants there is no limit.
  std::uint64_t slot_bytes = std::uint64_t{16} << 30;
  // --response-bytes: of the cells that the snapshots of a tenant's stored responses hold.
  std::uint64_t response_bytes = std::uint64_t{1} << 30;
  std::string slot_directory;         // --slot-save-path; empty: slots cannot be saved
  bool infills_suffix_first = false;  // --spm-infill

  // Chats.
  std::string chat_template;  // a name, or a Jinja program; empty: the model's
  bool uses_jinja = true;
  bool parses_answers = true;  // false: --skip-chat-parsing: calls and reasoning stay in the text
  bool continues_answers = true;  // an assistant message that comes last is continued
  std::string tool_format;        // empty: the one that the template shows
  ReasoningFormat reasoning_format = ReasoningFormat::kAuto;
  std::optional<bool> thinking;        // --reasoning on|off
  std::int32_t reasoning_budget = -1;  // 0: no reasoning; -1: no limit
  std::string budget_message;          // stands before the end of reasoning that the budget ended
  Value template_variables;            // --chat-template-kwargs: a dict, or missing

  GenerationDefaults defaults;
  bool is_verbose = false;
};

}  // namespace kvd::http
