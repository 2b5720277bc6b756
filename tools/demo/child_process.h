// ChildProcess: a process of the demonstration. The child starts its work at the same time as the
// other children, sends plain values to the parent, and waits until the parent releases it, so that
// the parent can inspect the resources that all children hold.
//
// Owner: the demonstration's main process. The destructor of ChildProcess kills and reaps the
// process.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd::demo {

template <class Report>
class ChildProcess {
 public:
  // The child's interface to the parent: `Send` sends a value (once or more), `Hold` waits until
  // the parent calls LetGo.
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

  // Forks a child process, which waits until the parent calls Go, runs `task(side)` and exits.
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
  // Returns the child's next value. Errors: kDisconnected (the child ended without a value).
  Result<Report> Receive() {
    Report report;
    if (::read(out_.get(), &report, sizeof report) == static_cast<ssize_t>(sizeof report))
      return report;
    return Fail(Code::kDisconnected, "process ", pid_, " ended without a report");
  }
  // Releases the child from Hold and reaps it.
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
