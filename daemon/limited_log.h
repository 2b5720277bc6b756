// LimitedLog: lines for what a peer can cause as often as it likes: of each event the first few in a
// period, and at the period's end how many more there were.
//
// Owner: the server. io thread only.
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
  static constexpr int kLinesPerPeriod = 10;  // of one event
  static constexpr std::chrono::milliseconds kPeriod{10'000};

  explicit LimitedLog(IoLoop& loop) : loop_(loop) {}
  ~LimitedLog();  // says what was left out so far
  LimitedLog(const LimitedLog&) = delete;
  LimitedLog& operator=(const LimitedLog&) = delete;

  // As kvd::Log. What is left out is told as "EVENT_left_out count=N" at the same level.
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
  std::map<std::string, Period, std::less<>> periods_;  // by event, those that are on
};

}  // namespace kvd
