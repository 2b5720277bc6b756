// kvctl: controls a kvd daemon from the command line. Exit status: 0: the verb succeeded; 1: the
// verb failed; 2: the command line is wrong.
//
// main parses the command line into the structs of options.h and then calls the function of the
// chosen verb.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/help_formatter.h"
#include "client/kvctl/command_line.h"
#include "shm/wire_check.h"
#include "text/json_builder.h"

namespace {

using kvd::Json;
using kvd::Status;
using namespace kvd::kvctl;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

void AddGlobalOptions(CLI::App& app, CommandLine& line) {
  auto* socket = app.add_option("--socket", line.global.connect.socket_path,
                                "Path of the daemon's socket. Default: $KVD_SOCKET, else the path "
                                "that the name of the daemon gives.")
                     ->type_name("PATH");
  app.add_option(
         "--name", line.global.connect.daemon_name,
         "Name of the daemon, from which the default path of its socket is made. Default: default.")
      ->type_name("NAME")
      ->excludes(socket);
  app.add_option("--cache-salt", line.global.connect.cache_salt,
                 "Number that separates users: prompts reuse only sequences with the same number. "
                 "Default: 0. Range: 0 to 18446744073709551615.")
      ->type_name("N");
  app.add_option_function<std::string>(
         "--tenant",
         [&line](const std::string& digits) {
           const auto tenant = kvd::wire::ParseTenantId(digits);
           if (!tenant) throw CLI::ValidationError("--tenant", tenant.error().message);
           line.global.connect.tenant = *tenant;
         },
         "Tenant of this uid for which kvctl acts, as 32 hexadecimal digits. Default: the uid "
         "itself.")
      ->type_name("HEX");
  app.add_option(
         "--timeout-ms", line.timeout_ms,
         "Time in milliseconds after which a request that has no answer fails. Default: no limit.")
      ->type_name("MS");
  app.add_flag("--json", line.global.wants_json, "Print JSON.");
}

void PrintError(const kvd::Error& error, bool wants_json) {
  const std::string code(kvd::CodeName(error.code));
  if (!wants_json) {
    std::fprintf(stderr, "kvctl: %s: %s\n", code.c_str(), error.message.c_str());
    return;
  }
  Json inner = Json::Object();
  inner.Set("code", code).Set("message", error.message);
  std::fprintf(stderr, "%s\n", Json::Object().Set("error", std::move(inner)).Text().c_str());
}

}  // namespace

int main(int argument_count, char** arguments) {
  // SIGPIPE keeps its default action, so a closed pipe (kvctl run ... | head) ends kvctl.
  CommandLine line;
  line.global.connect.client_name = "kvctl";
  CLI::App app("kvctl: talk to a kvd daemon", "kvctl");
  app.formatter(std::make_shared<kvd::HelpFormatter>());  // verbs inherit it
  app.require_subcommand(1);
  app.fallthrough();
  AddGlobalOptions(app, line);
  AddRunVerb(app, line);
  AddSequenceVerbs(app, line);
  AddSnapshotVerbs(app, line);
  AddSavedVerbs(app, line);
  AddPrefixVerbs(app, line);
  AddLlamaVerbs(app, line);
  AddTextVerbs(app, line);
  AddDaemonVerbs(app, line);
  AddMapVerbs(app, line);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    app.exit(error);
    return kExitUsage;
  }
  line.global.connect.call_timeout = std::chrono::milliseconds(line.timeout_ms);
  const Status status = line.verb();
  if (status) return 0;
  PrintError(status.error(), line.global.wants_json);
  return kExitFailed;
}
