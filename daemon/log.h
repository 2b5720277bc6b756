// The daemon's log: one line per event on standard error, "time level event key=value…".
//
// Threads: any. Owner: process-wide; SetLogLevel once at start. While a LogThread runs, no caller
// waits for the reader of standard error: what the reader does not take is dropped, and counted in
// the log ("log_lines_dropped"). Values that peers chose are shown
// by Quoted, so that a name can neither break the line nor pose as another field.
#pragma once

#include <chrono>
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

// From its construction on lines are queued, from Start on a thread of its own writes them. The
// destructor writes what is left, as long as the reader takes some every second. At most one in a
// process; after it lines are written by their callers again.
class LogThread {
 public:
  LogThread();
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

  void Start();

 private:
  bool is_started_ = false;
};

// Waits until the lines logged so far are written, `most` at most. Async-signal-safe.
void FlushLog(std::chrono::milliseconds most);

// The text in double quotes: printable ASCII as it is, quotes, backslashes and all other bytes as
// \xNN.
std::string Quoted(std::string_view text);

}  // namespace kvd
