// The flags of kvd-http: their table, and the reader of the command line.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/flag.h"
#include "http/options/settings.h"

namespace kvd::http {

// The table of flags, with llama-server's names, and what kvd-http does with each.
//
// A flag is used (`take` fills the settings), ignored (it is about hardware or about something that
// kvd does by itself; one line on standard error says so), or refused (it asks for something that
// kvd lacks).

using kvd::FlagValue;
using Flag = kvd::Flag<Settings>;

// The rows by topic, in the order of the help text.
std::span<const Flag> ModelFlags();
std::span<const Flag> ServerFlags();
std::span<const Flag> ChatFlags();
std::span<const Flag> SamplingFlags();
std::span<const Flag> IgnoredFlags();
std::span<const Flag> RefusedFlags();

// ParseFlags: reads the command line and the environment of kvd-http into Settings.
//
// A flag of the command line replaces the value of its environment variable, as in llama-server.
// Underscores in the names of long flags are read as hyphens, also as there.
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
