// DaemonOptions: the validated values of the command line; every number is in the range that its
// comment gives.
//
// DaemonOptions is a plain value that main creates once at start.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "daemon/process/log.h"
#include "daemon/process/weight_reading.h"
#include "daemon/sessions/quotas.h"
#include "engine/engine.h"

namespace kvd {

inline constexpr const char* kVersionText = KVD_VERSION;

struct DaemonOptions {
  Prefetch prefetch = Prefetch::kAuto;  // when the weights are read whole
  bool locks_weights = false;
  bool retunes = false;          // the choices of products are measured before clients are served
  EngineOptions engine;          // state_directory is set later
  std::string name = "default";  // IsName
  std::optional<std::string> socket_path;  // not empty; nullopt: derived from `name`
  std::optional<std::string> state_directory;
  std::optional<std::string> store;  // directory of saved states; nullopt: states cannot be saved
  // Directory of the prompt cache; nullopt: the daemon has no prompt cache.
  std::optional<std::string> cache_directory;
  // Largest size of all entries of the prompt cache together, in MiB.
  std::uint32_t cache_mb = 4096;
  // Smallest number of tokens of an entry of the prompt cache.
  std::uint32_t cache_tokens_min = 64;
  bool forgets = false;                     // true: the daemon removes the stored state and exits
  std::optional<std::string> forgets_only;  // with `forgets`: the state of this model alone
  bool describes = false;  // true: the daemon prints what the model's file says and exits
  // Uids that may connect in addition to the daemon's own uid.
  std::vector<std::uint32_t> allowed_uids;
  std::optional<std::string> socket_group;  // name of a group whose members may connect
  // The uid whose clients may name a tenant; nullopt: the daemon's own uid.
  std::optional<std::uint32_t> tenant_uid;
  std::optional<std::string>
      tenants_path;  // file of the tenants' limits (daemon/sessions/quotas.h)
  // Part of the used blocks, in percent, that is waste when an automatic defragmentation begins; 0:
  // no automatic defragmentation.
  std::uint32_t defrag_threshold = 30;
  // Largest number of prompt tokens in a step with decode rows; 1 to engine.ubatch_tokens.
  std::uint32_t prefill_chunk = 256;
  std::uint32_t max_step_ms = 200;        // target duration of a step with decode rows; 0: no limit
  std::uint32_t workers = 2;              // number of workers, 1 to 256
  std::uint32_t hello_timeout_ms = 5000;  // time limit for a hello in milliseconds, 1 to 600,000
  bool shares_prefixes = true;
  // Largest number of retained sequences.
  std::uint32_t retained_max = std::numeric_limits<std::uint32_t>::max();
  // Milliseconds for which a session is kept after its connection was lost, 0 to 3,600,000; 0: a
  // session ends with its connection.
  std::uint32_t reconnect_wait_ms = 2000;
  // Milliseconds for which a request waits for room in the pool while no request of its owner
  // progresses, 0 to 86,400,000; 0: it fails at once.
  std::uint32_t room_wait_ms = 60'000;
  // Seconds for which a session is kept after a restart of the daemon, 0 to 604,800.
  std::uint32_t restart_wait_s = 600;
  Quotas quotas;
  LogLevel log_level = LogLevel::kInfo;
  bool is_sandboxed = true;
  // True: processes of the same uid may trace the daemon's process and read its files in /proc.
  bool allow_debug = false;

  // Whether the daemon expects other owners than its own uid.
  bool admits_others() const {
    return !allowed_uids.empty() || socket_group.has_value() || tenant_uid || tenants_path;
  }
};

// The text that --help or --version prints on standard output before the daemon exits with 0.
struct PrintAndExit {
  std::string text;
};

// Errors: kInvalidArgument, naming the flag, the given value and the allowed values.
Result<std::variant<DaemonOptions, PrintAndExit>> ParseOptions(int argument_count,
                                                               const char* const* arguments);

}  // namespace kvd
