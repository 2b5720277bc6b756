#include "daemon/limited_log.h"
#include "base/text.h"

namespace kvd {

LimitedLog::~LimitedLog() {
  for (const auto& [event, period] : periods_) TellLeftOut(event, period);
}

void LimitedLog::TellLeftOut(const std::string& event, const Period& period) {
  if (period.left_out == 0) return;
  kvd::Log(period.level, event + "_left_out", Concat("count=", period.left_out));
}

void LimitedLog::Log(LogLevel level, std::string_view event, std::string_view fields) {
  auto found = periods_.find(event);
  if (found == periods_.end()) {
    const std::string name(event);
    found = periods_.emplace(name, Period{}).first;
    found->second.end = loop_.After(kPeriod, [this, name] {
      const auto ended = periods_.extract(name);
      TellLeftOut(name, ended.mapped());
    });
  }
  Period& period = found->second;
  period.level = level;
  if (period.lines == kLinesPerPeriod) {
    ++period.left_out;
    return;
  }
  ++period.lines;
  kvd::Log(level, event, fields);
}

}  // namespace kvd
