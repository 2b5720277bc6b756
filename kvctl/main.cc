// kvctl: controls a kvd daemon from the command line. Exit status: 0: the verb succeeded; 1: the
// verb failed; 2: the command line is wrong.
//
// main parses the command line into the structs of options.h and then calls the function of the
// chosen verb.

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "kvctl/command_line.h"
#include "text/json_builder.h"

namespace {

using kvd::Json;
using kvd::Status;
using namespace kvd::kvctl;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

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
  const auto help = ReadCommandLine(argument_count, arguments, line);
  if (!help) {
    std::fprintf(stderr, "%s\nRun with --help for more information.\n",
                 help.error().message.c_str());
    return kExitUsage;
  }
  if (*help) {
    std::fputs((*help)->c_str(), stdout);
    return 0;
  }
  line.global.connect.call_timeout = std::chrono::milliseconds(line.timeout_ms);
  const Status status = line.verb->run(line);
  if (status) return 0;
  PrintError(status.error(), line.global.wants_json);
  return kExitFailed;
}
