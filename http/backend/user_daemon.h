// The daemon of the user: a running kvd with the default name, which kvd-http uses instead of
// starting one, if it serves the same model. kvd-http never stops it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/options/settings.h"

namespace kvd::http {

// Returns whether the daemon with the default name runs, was started with the model of the
// settings, and has what the settings ask for: a pool of `cells_needed`, the cell types and
// --deterministic. The model is compared by file; a daemon whose command line names it by a
// relative path counts only if its working directory can be read. Blocks.
bool UserDaemonServes(const Settings& settings, std::uint64_t cells_needed);

// The arguments of a process name this model file ("--model FILE", "--model=FILE", "-m FILE");
// empty: none. `command_line`: as /proc/PID/cmdline has it, with a zero byte after each argument.
std::string ModelOfCommandLine(std::string_view command_line);

}  // namespace kvd::http
