// LimitedLog: limits the number of log lines that a peer can cause. For each event, a LimitedLog
// writes the first kLinesPerPeriod lines of a period and leaves out the other lines; at the end of
// the period it writes the number of lines that it has left out.
//
// Owner: the server. Only the io thread uses a LimitedLog.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/io_loop.h"
#include "daemon/log.h"

namespace kvd {

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
