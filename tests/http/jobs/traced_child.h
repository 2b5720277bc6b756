// TracedChild: runs a function in a forked child, and kills it before or after one of its system
// calls that touch files.
//
// The boundaries of a child are numbered from 0: before its first such call, after it, before the
// second one, and so on. A child that is killed before a call has not made it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace kvd::test {

struct TracedEnd {
  // The machine allows ptrace; otherwise nothing was run.
  bool is_allowed = true;
  bool is_killed = false;      // at the boundary
  int exit_status = -1;        // of a child that was not killed; -1: it had a signal
  std::size_t boundaries = 0;  // that it has reached
};

// `work` returns the child's exit status. `kill_at`: a boundary; nullopt: none.
TracedEnd RunTraced(const std::function<int()>& work, std::optional<std::size_t> kill_at);

// As RunTraced, without looking at the calls. Returns the exit status; -1: it had a signal.
int RunForked(const std::function<int()>& work);

}  // namespace kvd::test
