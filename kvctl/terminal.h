// Text input and output of kvctl: handles, ages, tables, progress, waiting for Ctrl-C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "client/client.h"

namespace kvd::kvctl {

// Formats a handle as a decimal number ("4294967299"), as in lists and in the daemon's errors.
std::string HandleText(SequenceHandle handle);

// Formats an age: "4s", "3m 20s", "5h 2m", "3d 4h".
std::string AgeText(std::uint64_t age_ms);
// Formats the time until an expiry like an age; "never" for 0.
std::string ExpiryText(std::uint32_t expires_in_seconds);
// Formats a duration: "0.9 µs", "12.3 ms", "4.50 s".
std::string DurationText(std::uint64_t ns);
// RequestStateName names a wire::RequestState: "waits", "computes", "parked"; empty: no request.
// RequestText formats the request that computes on a sequence, with its tokens: "computes 12/40",
// "parked 3s 12/40"; empty: there is none.
std::string RequestStateName(std::uint32_t request_state);
std::string RequestText(const wire::SequenceEntry& entry);
// Formats a number of bytes: "4.2 GiB".
std::string BytesText(std::uint64_t byte_count);

// Prints a table to standard output; columns are as wide as their widest cell, and the first row is
// the heading. `alignment`: 'r' or 'l' for each column.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::string_view alignment);

// Reads all of standard input. Errors: kIo.
Result<std::string> ReadStandardInput();

// A progress bar on standard error, shown only if standard error is a terminal. The destructor of
// ProgressBar erases the bar.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  bool is_shown() const { return is_terminal_; }
  void Show(std::uint64_t done, std::uint64_t total);
  void Erase();

 private:
  bool is_terminal_;
  bool is_drawn_ = false;
};

// BlockInterrupts blocks SIGINT and SIGTERM. HoldUntilInterrupted returns when SIGINT or SIGTERM
// arrives, or with an error when the connection to the daemon is lost.
void BlockInterrupts();
Status HoldUntilInterrupted(const Client& client);

}  // namespace kvd::kvctl
