// ChildProcess: a process of the demonstration that starts together with others, sends one plain
// value back, and stays until it is let go: so that what all of them hold can be looked at while
// they hold it.
//
// Owner: the demonstration's main process. Killed and reaped in the destructor at the latest.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd::demo {

template <class Report>
class ChildProcess {
 public:
  // What the child does between Start and its end: `report` sends the value (once or more), `hold`
  // waits to be let go.
  class Side {
   public:
    Side(int go, int out) : go_(go), out_(out) {}
    void Send(const Report& report) const { (void)!::write(out_, &report, sizeof report); }
    void Hold() const {
      char byte = 0;
      (void)!::read(go_, &byte, 1);
    }

   private:
    int go_;
    int out_;
  };

  // Forks; the child waits for Go, runs `task(side)` and exits.
  template <class Task>
  static Result<ChildProcess> Start(const Task& task) {
    int go[2], out[2];
    if (::pipe(go) != 0 || ::pipe(out) != 0) return FailErrno("pipe");
    ChildProcess child;
    child.go_ = UniqueFd(go[1]);
    child.out_ = UniqueFd(out[0]);
    child.pid_ = ::fork();
    if (child.pid_ < 0) return FailErrno("fork");
    if (child.pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(go[1]);
      ::close(out[0]);
      char byte = 0;
      if (::read(go[0], &byte, 1) == 1) task(Side(go[0], out[1]));
      ::_exit(0);
    }
    ::close(go[0]);
    ::close(out[1]);
    return child;
  }

  ChildProcess(ChildProcess&& other) noexcept
      : go_(std::move(other.go_)),
        out_(std::move(other.out_)),
        pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess() {
    if (pid_ > 0) Kill();
  }

  void Go() { (void)!::write(go_.get(), "g", 1); }
  // The child's next value. kDisconnected if it ended without one.
  Result<Report> Receive() {
    Report report;
    if (::read(out_.get(), &report, sizeof report) == static_cast<ssize_t>(sizeof report))
      return report;
    return Fail(Code::kDisconnected, "process " + std::to_string(pid_) + " ended without a word");
  }
  // Lets it end, and reaps it.
  void LetGo() {
    Go();
    Reap();
  }
  void Kill() {
    ::kill(pid_, SIGKILL);
    Reap();
  }

 private:
  ChildProcess() = default;
  void Reap() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
  }

  UniqueFd go_;
  UniqueFd out_;
  pid_t pid_ = -1;
};

}  // namespace kvd::demo
