// kvctl: controls a kvd daemon from the command line. Exit status: 0: the verb succeeded; 1: the
// verb failed; 2: the command line is wrong.
//
// main parses the command line into the structs of options.h and then calls the function of the
// chosen verb.

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "kvctl/command_line.h"
#include "text/json_builder.h"

namespace {

using kvd::Json;
using kvd::Status;
using namespace kvd::kvctl;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// The daemon's errors name the flag of the protocol, for which kvctl's verbs have --force.
std::string MessageOf(const kvd::Error& error) {
  std::string message = error.message;
  constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
      {"set the force flag", "use --force"}, {"the force flag", "--force"}};
  for (const auto& [from, to] : kTexts) {
    const std::size_t at = message.find(from);
    if (at != std::string::npos) message.replace(at, from.size(), to);
  }
  return message;
}

void PrintError(const kvd::Error& error, bool wants_json) {
  const std::string code(kvd::CodeName(error.code));
  const std::string message = MessageOf(error);
  if (!wants_json) {
    std::fprintf(stderr, "kvctl: %s: %s\n", code.c_str(), message.c_str());
    return;
  }
  Json inner = Json::Object();
  inner.Set("code", code).Set("message", message);
  std::fprintf(stderr, "%s\n", Json::Object().Set("error", std::move(inner)).Text().c_str());
}

void PrintNotice(kvd::ConnectionNotice notice) {
  std::fputs(notice == kvd::ConnectionNotice::kLost
                 ? "kvctl: the connection to the daemon is lost; reconnecting\n"
                 : "kvctl: reconnected\n",
             stderr);
}

}  // namespace

int main(int argument_count, char** arguments) {
  // SIGPIPE keeps its default action, so a closed pipe (kvctl run ... | head) ends kvctl.
  CommandLine line;
  line.global.connect.client_name = "kvctl";
  line.global.connect.on_notice = PrintNotice;
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
