// HttpProgram: an input of http_routes_fuzz: the gateway's setup, what its daemon does, and up to
// four requests to its routes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/http_route_fields.h"
#include "tests/fuzz/scripted_daemon.h"

namespace kvd::test {

struct HttpStep {
  const RouteRow* route = nullptr;
  std::string path_part;  // what stands at "{}" or "{*}"
  std::vector<std::pair<std::string, std::string>> query;
  std::string conversation;  // X-Conversation-Id; empty: none
  std::string body;
  std::uint8_t tenant = 0;
  bool waits = true;              // the step begins when the earlier ones have ended
  std::uint8_t turns_before = 0;  // else after as many turns of the loop
  bool is_slow = false;           // each write of the reply takes a turn of the loop
  // The client is gone after this many writes of the reply, or this many turns; none: it stays.
  std::optional<std::uint8_t> writes_max;
  std::optional<std::uint8_t> turns_max;
  bool restarts = false;  // before the step, the gateway is killed and started again
};

// What fails in the gateway's files.
enum class FileFault : std::uint8_t {
  kNone,
  kFolderGone,  // the folders of responses and journals were removed
  kNoBytes,     // no file can be written
  kFewBytes,    // files end after some bytes
};

struct HttpProgram {
  std::uint8_t setup = 0;  // of http_setups.h
  bool keeps_journals = false;
  bool stores_responses = true;
  FileFault file_fault = FileFault::kNone;
  std::vector<HttpStep> steps;
  DaemonScript script;
};

HttpProgram MakeHttpProgram(Choices& choices);
// For each row of RouteRows() the choices of a usual request to the route, and of nothing else.
std::vector<std::vector<std::uint8_t>> UsualInputs();
// What a request asks, for a report.
std::string ShownProgram(const HttpProgram& program);

}  // namespace kvd::test
