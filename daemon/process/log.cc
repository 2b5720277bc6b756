#include "daemon/process/log.h"

#include <unistd.h>

#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>

#include "base/text.h"
#include "daemon/process/log_queue.h"

namespace kvd {

// Only this file includes spdlog. The log's sink formats each line under a mutex, so the lines of
// several threads never mix.

namespace {

constexpr std::size_t kQueuedBytesMax = 1u << 20;
constexpr std::chrono::milliseconds kPatienceAtEnd{1000};

// The queue of lines; null: each caller writes its own line. The queue is never destroyed, because
// threads may log until the process ends and signal handlers flush the queue.
std::atomic<LogQueue*> queue_in_use{nullptr};

void WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (LogQueue* const queue = queue_in_use.load()) {
      queue->Add({line.data(), line.size()});
    } else {
      WriteAll({line.data(), line.size()});
    }
  }
  void flush_() override {}
};

std::string DroppedLine(std::uint64_t line_count) {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z warning log_lines_dropped count={}\n",
                     fmt::gmtime(now), line_count);
}

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("kvd", std::make_shared<Sink>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
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
  return Fail(Code::kInvalidArgument, "--log-level: \"", text,
              "\" is not debug, info, warning, error or off");
}

void SetLogLevel(LogLevel level) { Logger().set_level(SpdlogLevel(level)); }

void Log(LogLevel level, std::string_view event, std::string_view fields) {
  Logger().log(SpdlogLevel(level), "{} {}", event, fields);
}

LogThread::LogThread() {
  static LogQueue* const queue = new LogQueue(STDERR_FILENO, kQueuedBytesMax, DroppedLine);
  queue_in_use = queue;
}

void LogThread::Start() {
  is_started_ = true;
  queue_in_use.load()->Start();
}

LogThread::~LogThread() {
  LogQueue& queue = *queue_in_use;
  // A LogThread that was never started must still write its queued lines.
  if (!is_started_) queue.Start();
  queue.Stop(kPatienceAtEnd);
  queue_in_use = nullptr;
}

void FlushLog(std::chrono::milliseconds most) {
  if (const LogQueue* const queue = queue_in_use.load()) queue->Wait(most);
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
