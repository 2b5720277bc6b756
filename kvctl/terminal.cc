#include "kvctl/terminal.h"
#include "base/text.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace kvd::kvctl {
namespace {

std::string Formatted(const char* format, double number) {
  std::array<char, 48> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, number);
  return {buffer.data(), static_cast<std::size_t>(length)};
}

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Returns the number of terminal columns of a UTF-8 text; every character that kvctl prints takes
// one column.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string HandleText(SequenceHandle handle) {
  return std::to_string(static_cast<std::uint64_t>(handle));
}

std::string AgeText(std::uint64_t age_ms) {
  const std::uint64_t seconds = age_ms / 1000;
  const auto pair = [](std::uint64_t large, const char* large_unit, std::uint64_t small,
                       const char* small_unit) {
    return Concat(large, large_unit, " ", small, small_unit);
  };
  if (seconds < 60) return Concat(seconds, "s");
  if (seconds < 3600) return pair(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86400) return pair(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return pair(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

std::string ExpiryText(std::uint32_t expires_in_seconds) {
  if (expires_in_seconds == 0) return "never";
  return AgeText(std::uint64_t{expires_in_seconds} * 1000);
}

std::string DurationText(std::uint64_t ns) {
  const auto number = static_cast<double>(ns);
  if (ns < 1'000'000) return Formatted("%.1f µs", number / 1e3);
  if (ns < 1'000'000'000) return Formatted("%.1f ms", number / 1e6);
  return Formatted("%.2f s", number / 1e9);
}

std::string RequestStateName(std::uint32_t request_state) {
  switch (request_state) {
    case wire::kRequestWaits: return "waits";
    case wire::kRequestComputes: return "computes";
    case wire::kRequestParked: return "parked";
    default: return {};
  }
}

std::string RequestText(const wire::SequenceEntry& entry) {
  if (entry.request_state == wire::kRequestNone) return {};
  std::string tokens = std::to_string(entry.request_tokens_done);
  if (entry.request_tokens != 0) tokens += Concat("/", entry.request_tokens);
  const std::string state = RequestStateName(entry.request_state);
  if (entry.request_state != wire::kRequestParked) return state + " " + tokens;
  return Concat(state, " ", AgeText(entry.parked_ms), " ", tokens);
}

std::string BytesText(std::uint64_t byte_count) {
  const auto number = static_cast<double>(byte_count);
  if (byte_count < 1u << 10) return Concat(byte_count, " B");
  if (byte_count < 1u << 20) return Formatted("%.1f KiB", number / 1024);
  if (byte_count < 1u << 30) return Formatted("%.1f MiB", number / 1048576);
  return Formatted("%.2f GiB", number / 1073741824);
}

void PrintTable(const std::vector<std::vector<std::string>>& rows, std::string_view alignment) {
  std::vector<std::size_t> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string padding(widths[i] - WidthOf(row[i]), ' ');
      if (i != 0) line += "  ";
      line += alignment[i] == 'r' ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
  }
}

Result<std::string> ReadStandardInput() {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("standard input");
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

ProgressBar::ProgressBar() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}
ProgressBar::~ProgressBar() { Erase(); }

void ProgressBar::Show(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  constexpr std::size_t kColumns = 30;
  const auto filled = static_cast<std::size_t>(std::min(done, total) * kColumns / total);
  std::fprintf(stderr, "\rprompt [%s%s] %llu/%llu tokens ", std::string(filled, '#').c_str(),
               std::string(kColumns - filled, '.').c_str(), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(total));
  is_drawn_ = true;
}

void ProgressBar::Erase() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
  is_drawn_ = false;
}

void BlockInterrupts() {
  const sigset_t signals = Interrupts();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

Status HoldUntilInterrupted(const Client& client) {
  const sigset_t signals = Interrupts();
  const timespec pause{2, 0};
  for (;;) {
    if (::sigtimedwait(&signals, nullptr, &pause) > 0) return {};
    KVD_TRY([[maybe_unused]] const RoundTrip alive, client.Ping());
  }
}

}  // namespace kvd::kvctl
