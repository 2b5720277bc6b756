// The verbs of the daemon as a whole, and of its map.
#include <array>
#include <cstdint>
#include <string>

#include "base/flag.h"
#include "kvctl/command_line.h"
#include "kvctl/commands.h"

namespace kvd::kvctl {
namespace {

constexpr auto kInfoFlags = std::to_array<Flag<CommandLine>>({
    SwitchFlag(
        "--profile",
        "Show how the time of steps is divided, for decode steps and for steps with prompts.",
        TakeSwitch<&CommandLine::info_wants_profile>),
});

constexpr auto kDaemonsFlags = std::to_array<Flag<CommandLine>>({
    {.names = "name",
     .help = "Name of a daemon. Default: all daemons.",
     .take = TakeText<&CommandLine::daemons, &DaemonsOptions::name>},
    SwitchFlag("--prune",
               "Remove sockets, locks and directories that ended daemons have left and that hold "
               "no state; with a name, also the state of that daemon, after saying what it holds.",
               TakeSwitch<&CommandLine::daemons, &DaemonsOptions::prunes>),
});

constexpr auto kPingFlags = std::to_array<Flag<CommandLine>>({
    ValueFlag("-c --count", "N", "Number of round trips. Default: 10. Range: 1 to 1000000.",
              TakeNumber<1, 1'000'000, &CommandLine::ping, &PingOptions::count>),
    ValueFlag("--bytes", "BYTES",
              "Size in bytes of the payload in each direction. Default: 0. Range: 0 to 4096.",
              TakeNumber<0, 4096, &CommandLine::ping, &PingOptions::payload_bytes>),
});

constexpr auto kDaemonVerbs = std::to_array<CommandRow>({
    {.name = "info",
     .description = "Show the model, the pool and the daemon",
     .example = "info --profile",
     .run =
         [](const CommandLine& line) {
           return line.info_wants_profile ? ShowProfile(line.global) : ShowInfo(line.global);
         },
     .flags = kInfoFlags},
    {.name = "daemons",
     .description = "List the user's daemons and their states, or remove leftovers",
     .example = "daemons --prune",
     .run = [](const CommandLine& line) { return ListDaemons(line.global, line.daemons); },
     .flags = kDaemonsFlags},
    {.name = "defrag",
     .description = "Pack the pool and settle sequences with many shifts",
     .example = "defrag",
     .run = [](const CommandLine& line) { return Defragment(line.global); }},
    {.name = "tenants",
     .description = "List the tenants, their limits and what they hold",
     .example = "tenants",
     .run = [](const CommandLine& line) { return ListTenants(line.global); }},
    {.name = "ping",
     .description = "Measure round trips",
     .example = "ping --count 100 --bytes 64",
     .run = [](const CommandLine& line) { return PingDaemon(line.global, line.ping); },
     .flags = kPingFlags},
});

constexpr auto kMapFlags = std::to_array<Flag<CommandLine>>({
    SwitchFlag("--svg", "Print an SVG picture.",
               TakeSwitch<&CommandLine::map, &MapOptions::wants_svg>),
});

constexpr auto kTopFlags = std::to_array<Flag<CommandLine>>({
    SwitchFlag("--once", "Show it once.", TakeSwitch<&CommandLine::map, &MapOptions::is_once>),
    ValueFlag("--period-ms", "MS",
              "Time in milliseconds between two refreshes. Default: 500. Range: 50 to 60000.",
              TakeNumber<50, 60'000, &CommandLine::map, &MapOptions::period_ms>),
});

constexpr auto kMapVerbs = std::to_array<CommandRow>({
    {.name = "map",
     .description = "Show which sequences hold which cells",
     .example = "map --svg",
     .run = [](const CommandLine& line) { return ShowMap(line.global, line.map); },
     .flags = kMapFlags},
    {.name = "top",
     .description = "Show the map and the sessions' token rates until Ctrl-C",
     .example = "top --period-ms 1000",
     .run = [](const CommandLine& line) { return ShowTop(line.global, line.map); },
     .flags = kTopFlags},
});

}  // namespace

std::span<const CommandRow> DaemonVerbs() { return kDaemonVerbs; }
std::span<const CommandRow> MapVerbs() { return kMapVerbs; }

}  // namespace kvd::kvctl
