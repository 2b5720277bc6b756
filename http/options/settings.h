// Settings: the validated command line of kvd-http. Flags have llama-server's names and meanings
// (docs/http.md lists them). Settings is a plain value that main makes once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/sampling_params.h"
#include "text/value.h"

namespace kvd::http {

// llama.cpp's number for "a random seed" (LLAMA_DEFAULT_SEED).
inline constexpr std::uint32_t kRandomSeed = 0xffffffffu;

// What a request that does not name a field gets.
struct GenerationDefaults {
  SamplingParams sampling = kDefaultSampling;
  std::uint32_t seed = kRandomSeed;
  std::int32_t predict_max = -1;  // -1: until an end token or the end of the context
  std::int32_t keep = 0;          // tokens that a context shift keeps at the beginning; -1: all
  bool ignores_eos = false;
  bool caches_prompt = true;
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
  bool no_auth = false;      // an address other than loopback may be served without keys
  std::vector<std::string> cors_origins;
  std::chrono::seconds io_timeout{3600};  // --timeout: of reading and writing

  // What is served.
  std::string model_path;  // empty: the bundled model, unless daemons are named
  std::vector<NamedDaemon> daemons;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  std::string state_directory;  // empty: the default place
  bool keeps_state = false;     // the cache of a daemon that kvd-http started survives its end

  // The context and the daemon that kvd-http starts.
  std::uint32_t context_cells =
      0;                         // -c: of all slots together; 0: the trained context for each slot
  std::uint32_t slot_count = 0;  // -np; 0: kSlotsDefault
  bool is_unified = false;       // --kv-unified: each slot may have the whole context
  std::uint32_t threads = 0;     // 0: as the daemon chooses
  std::uint32_t ubatch_tokens = 0;  // 0: as the daemon chooses
  std::string k_type;               // empty: as the daemon chooses
  std::string v_type;
  bool keeps_windows = false;  // --swa-full
  bool locks_weights = false;  // --mlock
  bool is_deterministic = false;
  std::vector<std::string> daemon_arguments;  // further flags of kvd, after "--"

  // What is offered.
  bool serves_slots = true;     // GET /slots
  bool serves_metrics = false;  // GET /metrics
  bool changes_props = false;   // POST /props
  bool is_embedder = false;     // --embedding: only embeddings
  bool is_reranker = false;     // --reranking
  std::string pooling;          // empty: as the model's file declares
  bool shifts_context = false;
  std::string slot_directory;         // --slot-save-path; empty: slots cannot be saved
  bool infills_suffix_first = false;  // --spm-infill

  // Chats.
  std::string chat_template;  // a name, or a Jinja program; empty: the model's
  bool uses_jinja = true;
  std::string tool_format;  // empty: the one that the template shows
  ReasoningFormat reasoning_format = ReasoningFormat::kAuto;
  std::optional<bool> thinking;        // --reasoning on|off
  std::int32_t reasoning_budget = -1;  // 0: no reasoning; -1: no limit
  Value template_variables;            // --chat-template-kwargs: a dict, or missing

  GenerationDefaults defaults;
  bool is_verbose = false;
};

inline constexpr std::uint32_t kSlotsDefault = 4;

}  // namespace kvd::http
