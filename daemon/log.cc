// spdlog is met here and nowhere else. Its sink is a mutex and a write: lines of several threads
// never mix.
#include "daemon/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace kvd {
namespace {

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    // Never destroyed: threads may log until the process is gone.
    auto* made = new spdlog::logger("kvd", std::move(sink));
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::trace);
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return Fail(Code::kInvalidArgument, "--log-level: \"" + std::string(text) +
                                          "\" is not debug, info, warning, error or off");
}

void SetLogLevel(LogLevel level) { Logger().set_level(SpdlogLevel(level)); }

void Log(LogLevel level, std::string_view event, std::string_view fields) {
  Logger().log(SpdlogLevel(level), "{} {}", event, fields);
}

std::string Quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
      quoted += character;
    } else {
      quoted += "\\x";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    }
  }
  return quoted += '"';
}

}  // namespace kvd
