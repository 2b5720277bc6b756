// ParseFlags: reads the command line and the environment of kvd-http into Settings.
//
// A flag of the command line replaces the value of its environment variable, as in llama-server.
// Underscores in the names of long flags are read as hyphens, also as there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/options/settings.h"

namespace kvd::http {

struct ParsedFlags {
  Settings settings;
  std::vector<std::string> notes;    // lines about flags without effect
  std::optional<std::string> print;  // --help, --version: text for standard output, and exit
};

// Returns the value of an environment variable, or null: std::getenv.
using Environment = std::function<const char*(const char* name)>;

// Errors: kInvalidArgument: an unknown flag, a value that is missing or wrong, or flags that
// contradict each other; kUnsupported: a flag for what kvd lacks. The message begins with the name.
Result<ParsedFlags> ParseFlags(int argument_count, const char* const* arguments,
                               const Environment& environment);

}  // namespace kvd::http
