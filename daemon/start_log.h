// The lines of the log that say how the daemon has started: which state it found, which tuning it
// uses, and what it serves.
//
// The main thread calls each function once.
#pragma once

#include <string>

namespace kvd {

class Engine;
class StateDirectory;
struct MemoryStart;
struct TuningState;

// Logs the lost sequences, and whether the memory resumes the stored state (warm_start) or begins
// empty (cold_start).
void LogMemoryStart(const MemoryStart& start);

// Logs when the tuning was measured, or why the stored tuning is ignored. The default tuning is not
// logged.
void LogTuningStart(const TuningState& state);

// Logs the line `start`: the process, its paths, the size of its pool, and how it computes.
void LogStart(Engine& engine, const std::string& socket_path, const StateDirectory& state);

}  // namespace kvd
