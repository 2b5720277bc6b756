// What the command line asks of the daemon, validated: every number is in the range its comment
// gives.
//
// A plain value, made once at start. CLI11 is met in options.cc and nowhere else.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/log.h"
#include "daemon/quotas.h"
#include "engine/engine.h"
#include "shm/error.h"

namespace kvd {

inline constexpr const char* kVersionText = "0.1.0";

struct DaemonOptions {
  EngineOptions engine;                    // state_directory is filled in later
  std::string name = "default";            // IsSafeName
  std::optional<std::string> socket_path;  // not empty; else by name
  std::optional<std::string> state_directory;
  std::optional<std::string> store;            // directory of saved states
  std::optional<std::string> cache_directory;  // of the prompt cache
  std::uint32_t cache_mb = 4096;               // of all its entries
  std::uint32_t cache_tokens_min = 64;         // of an entry
  bool forgets = false;                        // remove the state that lies there and end
  std::vector<std::uint32_t> allowed_uids;     // beside the daemon's own
  std::optional<std::string> socket_group;     // its members may connect
  std::uint32_t defrag_threshold = 30;         // percent of the used blocks; 0: never by itself
  std::uint32_t prefill_chunk = 256;           // tokens; 1 to engine.ubatch_tokens
  std::uint32_t max_step_ms = 200;             // beside decode rows; 0: any time
  std::uint32_t workers = 2;                   // 1 to 256
  std::uint32_t hello_timeout_ms = 5000;       // 1 to 600,000
  bool shares_prefixes = true;
  std::uint32_t retained_max = std::numeric_limits<std::uint32_t>::max();  // sequences
  std::uint32_t reconnect_wait_ms = 2000;  // 0 to 3,600,000; 0: a lost connection's session ends
  std::uint32_t restart_wait_s = 600;      // 0 to 604,800
  Quotas quotas;
  LogLevel log_level = LogLevel::kInfo;
  bool is_sandboxed = true;
  bool allow_debug = false;  // leave the process open to ptrace and /proc readers of the same uid

  bool admits_others() const { return !allowed_uids.empty() || socket_group.has_value(); }
};

// Text to print on standard output before exiting with 0: --help, --version.
struct PrintAndExit {
  std::string text;
};

// Errors: kInvalidArgument, naming the flag, what was given and what is allowed.
Result<std::variant<DaemonOptions, PrintAndExit>> ParseOptions(int argument_count,
                                                               const char* const* arguments);

// Whether a name that a user or client gave is one safe path component:
// [A-Za-z0-9_-][A-Za-z0-9._-]*, at most 63 bytes.
bool IsSafeName(std::string_view name);

}  // namespace kvd
