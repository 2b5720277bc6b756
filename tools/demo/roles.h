// What each process of the demonstration does with the daemon: one reads a notebook and publishes
// it, others ask about it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "client/client.h"
#include "shm/error.h"
#include "tools/demo/notebook.h"

namespace kvd::demo {

inline constexpr char kSnapshotName[] = "notebook";

// Sent through a pipe.
struct Report {
  bool failed = false;
  char text[256] = {};          // the answer, or the error
  std::uint32_t reused = 0;     // tokens that the sequence already held
  std::uint32_t computed = 0;   // tokens computed: the question's and the answer's
  std::uint64_t fork_ns = 0;    // in the daemon's engine
  std::uint64_t attach_ns = 0;  // as the process saw it, round trip and all
  std::uint64_t total_ns = 0;   // from the question to the end of the answer
};
Report FailedReport(const Error& error);

// Computes the notebook in a sequence of its own and publishes it.
Result<Report> ReadNotebook(const Client& client, const std::string& notebook);
// Attaches the notebook and asks. The sequence with the answer is handed out, so that its cells
// live as long as the caller likes.
struct Answered {
  Report report;
  Sequence sequence;
};
Result<Answered> Ask(const Client& client, const Question& question);
// Attaches the notebook and talks without an end; `started` is called once tokens come.
Status Ramble(const Client& client, const std::function<void()>& started);

}  // namespace kvd::demo
