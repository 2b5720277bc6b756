#include "daemon/start_log.h"

#include <unistd.h>

#include "base/text.h"
#include "daemon/process/log.h"
#include "daemon/stores/state_directory.h"
#include "engine/engine.h"
#include "engine/memory/memory_home.h"
#include "engine/model/model_config.h"
#include "engine/tuning/tuning_run.h"
#include "shm/segment_layout.h"

namespace kvd {

void LogMemoryStart(const MemoryStart& start) {
  for (const LostSequence& lost : start.lost) {
    Log(LogLevel::kWarning, "sequence_dropped",
        Concat("sequence=", static_cast<std::uint64_t>(lost.handle),
               (lost.snapshot.empty() ? "" : " snapshot=" + Quoted(lost.snapshot)),
               " reason=", Quoted(lost.reason)));
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
        "the stored state cannot be used; meta is renamed to meta.bad: reason=" +
            Quoted(start.why_cold));
  }
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
