// The command line of the verbs that show and control the daemon as a whole.
#include "client/kvctl/command_line.h"
#include "client/kvctl/commands.h"

namespace kvd::kvctl {

void AddDaemonVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* info = AddVerb(
      app, line, "info", "Show the model, the pool and the daemon", "info --profile", [&line] {
        return line.info_wants_profile ? ShowProfile(line.global) : ShowInfo(line.global);
      });
  info->add_flag(
      "--profile", line.info_wants_profile,
      "Show how the time of steps is divided, for decode steps and for steps with prompts.");
  AddVerb(app, line, "defrag", "Pack the pool and settle sequences with many shifts", "defrag",
          [&line] { return Defragment(line.global); });
  AddVerb(app, line, "tenants", "List the tenants, their limits and what they hold", "tenants",
          [&line] { return ListTenants(line.global); });
  CLI::App* ping = AddVerb(app, line, "ping", "Measure round trips", "ping --count 100 --bytes 64",
                           [&line] { return PingDaemon(line.global, line.ping); });
  ping->add_option("-c,--count", line.ping.count,
                   "Number of round trips. Default: 10. Range: 1 to 1000000.")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  ping->add_option("--bytes", line.ping.payload_bytes,
                   "Size in bytes of the payload in each direction. Default: 0. Range: 0 to 4096.")
      ->type_name("BYTES")
      ->check(CLI::Range(0, 4096));
}

void AddMapVerbs(CLI::App& app, CommandLine& line) {
  CLI::App* map = AddVerb(app, line, "map", "Show which sequences hold which cells", "map --svg",
                          [&line] { return ShowMap(line.global, line.map); });
  map->add_flag("--svg", line.map.wants_svg, "Print an SVG picture.");
  CLI::App* top =
      AddVerb(app, line, "top", "Show the map and the sessions' token rates until Ctrl-C",
              "top --period-ms 1000", [&line] { return ShowTop(line.global, line.map); });
  top->add_flag("--once", line.map.is_once, "Show it once.");
  top->add_option("--period-ms", line.map.period_ms,
                  "Time in milliseconds between two refreshes. Default: 500. Range: 50 to 60000.")
      ->type_name("MS")
      ->check(CLI::Range(50, 60'000));
}

}  // namespace kvd::kvctl
