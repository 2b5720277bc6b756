// What kvctl reads from and shows to people: handles, ages, tables, progress, waiting for Ctrl-C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "shm/error.h"

namespace kvd::kvctl {

// "4294967299", as ps and the daemon's errors show it; ParseHandle also takes 0x100000003. Error:
// kInvalidArgument.
std::string HandleText(SequenceHandle handle);
Result<SequenceHandle> ParseHandle(std::string_view text);

// "4s", "3m 20s", "5h 2m", "3d 4h".
std::string AgeText(std::uint64_t age_ms);
// "0.9 µs", "12.3 ms", "4.50 s".
std::string DurationText(std::uint64_t ns);
// "4.2 GiB".
std::string BytesText(std::uint64_t byte_count);

// Columns as wide as their widest cell, to standard output; the first row is the heading. Columns
// of `right_aligned` (one 'r' or 'l' each) are aligned so.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::string_view alignment);

// All of standard input. Error: kIo.
Result<std::string> ReadStandardInput();

// A bar on standard error, if that is a terminal; erased when it goes.
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

// From BlockInterrupts on, SIGINT and SIGTERM wait for HoldUntilInterrupted, which returns when one
// comes, or with the error when the daemon goes away.
void BlockInterrupts();
Status HoldUntilInterrupted(const Client& client);

}  // namespace kvd::kvctl
