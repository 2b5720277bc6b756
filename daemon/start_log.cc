#include "daemon/start_log.h"

#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "daemon/process/log.h"
#include "daemon/process/process_usage.h"
#include "daemon/stores/state_directory.h"
#include "engine/engine.h"
#include "engine/memory/memory_home.h"
#include "engine/model/model_config.h"
#include "engine/tuning/tuning_run.h"
#include "shm/segment_layout.h"

namespace kvd {

namespace {

// Bytes that the file system of the state still has for the pool; the largest number: no limit.
std::uint64_t FreeStateBytes(const StateDirectory& state) {
  struct statfs found{};
  if (::fstatfs(state.descriptor(), &found) != 0 || found.f_blocks == 0) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize);
}

void LogPoolRoom(Engine& engine, const StateDirectory& state) {
  const std::uint64_t pool_bytes = engine.memory().geometry().pool.total;
  const std::uint64_t reserved_bytes = engine.memory().Usage().reserved_bytes;
  const std::uint64_t missing_bytes = pool_bytes - std::min(pool_bytes, reserved_bytes);
  const std::uint64_t file_bytes = FreeStateBytes(state);
  const std::uint64_t free_bytes =
      state.on_tmpfs() ? std::min(file_bytes, FreeMemoryBytes()) : file_bytes;
  if (missing_bytes <= free_bytes) return;
  Log(LogLevel::kWarning, "pool_exceeds_memory",
      Concat(
          "pool_bytes=", pool_bytes, " reserved_bytes=", reserved_bytes, " free_bytes=", free_bytes,
          " reason=", Quoted("requests fail when the free bytes are used; choose a smaller -c")));
}

}  // namespace

void LogMemoryStart(Engine& engine, const StateDirectory& state) {
  const MemoryStart& start = engine.memory_start();
  for (const LostSequence& lost : start.lost) {
    Log(LogLevel::kWarning, "sequence_dropped",
        Concat("sequence=", static_cast<std::uint64_t>(lost.handle),
               (lost.snapshot.empty() ? "" : " snapshot=" + Quoted(lost.snapshot)),
               " reason=", Quoted(lost.reason)));
  }
  if (start.resized_from != 0) {
    Log(LogLevel::kInfo, "resized",
        Concat("cells_before=", start.resized_from, " evicted=", start.evicted));
  }
  if (start.is_warm) {
    Log(LogLevel::kInfo, "warm_start",
        Concat(
            "sequences=", start.sequences, " snapshots=", start.snapshots,
            " dropped=", start.lost.size(),
            (start.cells_checked ? " cells=checked" : " cells=not_checked (see --verify-pool)")));
  } else if (start.why_cold.empty()) {
    Log(LogLevel::kInfo, "cold_start", "no stored state was found");
  } else {
    Log(LogLevel::kWarning, "cold_start",
        Concat("the stored state is not used; ",
               start.kept_aside.empty() ? std::string("it is removed")
                                        : "it is kept aside as " + start.kept_aside,
               ": reason=", Quoted(start.why_cold)));
  }
  for (const std::string& name : start.removed_asides) {
    Log(LogLevel::kWarning, "aside_removed", Quoted(name) + " and its pool are removed");
  }
  if (start.aside_bytes != 0) {
    Log(LogLevel::kInfo, "kept_aside",
        Concat("bytes=", start.aside_bytes, " in ", Quoted(state.path()),
               "; kvd --forget removes them"));
  }
  LogPoolRoom(engine, state);
}

namespace {

std::string ForgetCommand(const std::string& name, const StoredState& stored) {
  return Concat("kvd --forget --name ", name,
                stored.model_id.empty() ? std::string() : " --only " + stored.model_id);
}

}  // namespace

void LogOtherStates(const std::string& name, std::span<const StoredState> states,
                    const StateDirectory& own) {
  for (const StoredState& stored : states) {
    if (stored.path == own.path()) continue;
    Log(LogLevel::kInfo, "other_state",
        Concat("bytes=", stored.bytes, " model=", Quoted(stored.model_name), " in ",
               Quoted(stored.path), "; frees them: ", Quoted(ForgetCommand(name, stored))));
  }
}

std::string OtherStatesText(const std::string& name, std::span<const StoredState> states,
                            const std::string& own_path) {
  std::string text;
  for (const StoredState& stored : states) {
    if (stored.path == own_path) continue;
    text += Concat("; ", stored.bytes, " bytes are the state of ",
                   stored.model_id.empty() ? std::string("an earlier version")
                                           : "model " + Quoted(stored.model_name),
                   ", which \"", ForgetCommand(name, stored), "\" frees");
  }
  return text;
}

void LogTuningStart(const TuningState& state) {
  if (!state.why_ignored.empty()) {
    Log(LogLevel::kWarning, "tuning_ignored", "reason=" + Quoted(state.why_ignored));
  } else if (state.source == ChoiceSource::kMeasuredBefore) {
    Log(LogLevel::kInfo, "tuning", Concat("measured_unix_ms=", state.tuning.measured_unix_ms));
  }
}

void LogStart(Engine& engine, const std::string& socket_path, const StateDirectory& state) {
  const PoolUsage usage = engine.memory().Usage();
  Log(LogLevel::kInfo, "start",
      Concat("pid=", ::getpid(), " socket=", Quoted(socket_path), " state=", Quoted(state.path()),
             " cells=", std::uint64_t{usage.total_blocks} * layout::kBlockCells,
             " vocab=", engine.config().vocab_size, " kernels=", engine.kernels().name,
             " threads=", engine.options().threads));
}

}  // namespace kvd
