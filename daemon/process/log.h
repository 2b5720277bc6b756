// The daemon's log, and LimitedLog, which limits the lines that a peer can cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "daemon/process/io_loop.h"

namespace kvd {

// The daemon's log: one line per event on standard error, "time level event key=value…".
//
// Any thread may log. The log is global to the process; SetLogLevel is called once at the daemon's
// start. While a LogThread runs, callers never wait for the reader of standard error: if the reader
// is too slow, the oldest lines are dropped and counted in the log ("log_lines_dropped"). Values
// chosen by peers are written with Quoted, so that a name can neither break the line nor imitate
// another field.

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// Parses "debug", "info", "warning", "error" or "off". Errors: kInvalidArgument, naming the text.
Result<LogLevel> ParseLogLevel(std::string_view text);
void SetLogLevel(LogLevel level);

// Writes one line. `event` is a lower_snake word ("connect"); `fields` is "key=value key=value" or
// a sentence.
void Log(LogLevel level, std::string_view event, std::string_view fields);

// While a LogThread exists, log lines are queued; after the call of Start, a thread writes the
// queued lines. The destructor writes the remaining lines, but gives up if the reader of standard
// error reads nothing for a second. At most one LogThread exists in a process. While no LogThread
// exists, callers of Log write their lines themselves.
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

// Waits until the lines that were logged before the call are written, but at most for the time
// `most`. FlushLog is async-signal-safe.
void FlushLog(std::chrono::milliseconds most);

// Returns the text in double quotes, with printable ASCII characters unchanged and with quotes,
// backslashes and all other bytes written as \xNN.
std::string Quoted(std::string_view text);

// LimitedLog: limits the number of log lines that a peer can cause. For each event, a LimitedLog
// writes the first kLinesPerPeriod lines of a period and leaves out the other lines; at the end of
// the period it writes the number of lines that it has left out.
//
// Owner: the server. Only the io thread uses a LimitedLog.
class LimitedLog {
 public:
  static constexpr int kLinesPerPeriod = 10;  // largest number of lines of one event in a period
  static constexpr std::chrono::milliseconds kPeriod{10'000};

  explicit LimitedLog(IoLoop& loop) : loop_(loop) {}
  ~LimitedLog();  // the destructor logs how many lines were left out
  LimitedLog(const LimitedLog&) = delete;
  LimitedLog& operator=(const LimitedLog&) = delete;

  // LimitedLog::Log has the arguments of kvd::Log. The number of lines that were left out is logged
  // as "EVENT_left_out count=N" at the same level.
  void Log(LogLevel level, std::string_view event, std::string_view fields);

 private:
  struct Period {
    LogLevel level = LogLevel::kInfo;
    int lines = 0;
    std::uint64_t left_out = 0;
    std::unique_ptr<IoLoop::Handle> end;
  };
  static void TellLeftOut(const std::string& event, const Period& period);

  IoLoop& loop_;
  // The present period of each event; the key is the event.
  std::map<std::string, Period, std::less<>> periods_;
};

}  // namespace kvd
