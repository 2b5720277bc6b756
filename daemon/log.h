// The daemon's log: one line per event on standard error, "time level event key=value…".
//
// Threads: any. Owner: process-wide; SetLogLevel once at start. Values that peers chose are shown
// by Quoted, so that a name can neither break the line nor pose as another field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/error.h"

namespace kvd {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error", "off". Errors: kInvalidArgument naming the text.
Result<LogLevel> ParseLogLevel(std::string_view text);
void SetLogLevel(LogLevel level);

// One line. `event` is a lower_snake word ("connect"), `fields` is "key=value key=value" or a
// sentence.
void Log(LogLevel level, std::string_view event, std::string_view fields);

// The text in double quotes: printable ASCII as it is, quotes, backslashes and all other bytes as
// \xNN.
std::string Quoted(std::string_view text);

}  // namespace kvd
