// The lines of the log that say how the daemon has started: which state it found, which tuning it
// uses, and what it serves.
//
// The main thread calls each function once.
#pragma once

#include <span>
#include <string>

namespace kvd {

class Engine;
class StateDirectory;
struct StoredState;
struct TuningState;

// Logs the lost sequences, whether the memory resumes the stored state (warm_start) or begins empty
// (cold_start), what is kept aside, and a pool that the machine cannot hold.
void LogMemoryStart(Engine& engine, const StateDirectory& state);

// Logs the states of other models that daemons of this name have left, with the command that frees
// their room.
void LogOtherStates(const std::string& name, std::span<const StoredState> states,
                    const StateDirectory& own);
// What a start that lacks room says about them; empty: there are none.
std::string OtherStatesText(const std::string& name, std::span<const StoredState> states,
                            const std::string& own_path);

// Logs when the tuning was measured, or why the stored tuning is ignored. The default tuning is not
// logged.
void LogTuningStart(const TuningState& state);

// Logs the line `start`: the process, its paths, the size of its pool, and how it computes.
void LogStart(Engine& engine, const std::string& socket_path, const StateDirectory& state);

}  // namespace kvd
