// The daemon that kvd-http uses: one that it starts for its settings, or the user's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/options/settings.h"

namespace kvd::http {

// What `kvd --describe` prints about a model.
struct ModelFacts {
  std::uint32_t context_length = 0;
  std::uint64_t cell_bytes = 0;
  std::uint64_t weight_bytes = 0;
};
// Errors: kCorrupt: a line is missing.
Result<ModelFacts> ReadModelFacts(std::string_view text);

// The flags of the model alone, for `kvd --describe`.
std::vector<std::string> ModelArguments(const Settings& settings);

// The name of the daemon. It depends neither on sizes (context, slots, threads, batch) nor on the
// machine's memory, so that another size finds the state of the earlier one.
std::string DaemonName(const Settings& settings);
// The name of a daemon of these sizes alone, beside a daemon of DaemonName that another kvd-http
// uses with other sizes.
std::string SizedDaemonName(const Settings& settings);
// Whether a daemon with this command line has the given flags, except for the paths of a gateway's
// files and the name. `command_line`: as /proc/PID/cmdline has it; empty: true.
bool HasFlags(std::string_view command_line, const std::vector<std::string>& arguments);

// DaemonPlan: the name and the flags of the daemon that kvd-http starts for its settings.
//
// The name is "http-" and 16 hexadecimal digits of a hash of the model's real path, of the flags
// that change what the daemon's cells are, of the flags that the user gives for kvd, and of the
// directory of sockets, because the daemon's state has a place of its own by this name. A kvd-http
// with the same options finds the same daemon. One with other sizes starts the daemon of that name
// with its sizes, which keeps the state (docs/decisions/0039), or, if another kvd-http uses the
// daemon, one of its own (SizedDaemonName).
//
// Size of the pool. The slots' context is S tokens: that of --ctx-size, or without it what the
// model was trained for, in each slot (--kv-unified: in all slots together). Prefixes that no slot
// uses need room, too, so the pool has 4 S cells, but more than a quarter of the machine's memory
// only for the first 1.25 S, which are needed to serve all slots. Without --ctx-size these are 1.25
// times the context of one slot. With --tenants, whose tenants may hold half of the pool each by
// default, the pool has at least two contexts of a slot.
struct DaemonPlan {
  std::uint64_t cells = 0;             // of the pool
  std::uint64_t cells_needed = 0;      // S: with fewer a daemon cannot serve the slots
  std::vector<std::string> arguments;  // of kvd, without its name and the paths of its files
  std::vector<std::string> notes;      // lines for standard error
};

// `memory_bytes`: of the machine.
DaemonPlan PlanDaemon(const Settings& settings, const ModelFacts& facts,
                      std::uint64_t memory_bytes);

// The machine's memory, or what the control group of this process allows if that is less.
std::uint64_t MemoryBytes();

// The daemon of the user: a running kvd with the default name, which kvd-http uses instead of
// starting one, if it serves the same model. kvd-http never stops it.

// Returns whether the daemon with the default name runs, was started with the model of the
// settings, and has what the settings ask for: a pool of `cells_needed`, the cell types and
// --deterministic. The model is compared by file; a daemon whose command line names it by a
// relative path counts only if its working directory can be read. Blocks.
bool UserDaemonServes(const Settings& settings, std::uint64_t cells_needed);

// The arguments of a process name this model file ("--model FILE", "--model=FILE", "-m FILE");
// empty: none. `command_line`: as /proc/PID/cmdline has it, with a zero byte after each argument.
std::string ModelOfCommandLine(std::string_view command_line);

}  // namespace kvd::http
