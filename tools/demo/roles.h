// The roles of the demonstration's processes: one process reads a notebook and publishes it, and
// the other processes ask questions about the notebook.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "client/client.h"
#include "tools/demo/notebook.h"

namespace kvd::demo {

inline constexpr char kSnapshotName[] = "notebook";

// The report of a process, sent to the parent through a pipe.
struct Report {
  bool failed = false;
  char text[256] = {};          // the answer, or the error
  std::uint32_t reused = 0;     // number of tokens that the attached fork already held
  std::uint32_t computed = 0;   // number of tokens that were computed for question and answer
  std::uint64_t fork_ns = 0;    // time of the fork in the daemon's engine
  std::uint64_t attach_ns = 0;  // time of the attach call in the process, with the round trip
  std::uint64_t total_ns = 0;   // time from the question to the end of the answer
};
Report FailedReport(const Error& error);

// Computes the notebook in a new sequence and publishes it.
Result<Report> ReadNotebook(const Client& client, const std::string& notebook);
// Attaches the notebook and asks a question. Returns the sequence with the answer, so that the
// caller decides how long the sequence's cells live.
struct Answered {
  Report report;
  Sequence sequence;
};
Result<Answered> Ask(const Client& client, const Question& question);
// Attaches the notebook and generates without end; calls `started` at the first tokens.
Status Ramble(const Client& client, const std::function<void()>& started);

}  // namespace kvd::demo
