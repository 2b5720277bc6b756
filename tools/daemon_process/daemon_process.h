// DaemonProcess: a kvd of one's own, in a private directory, for demonstrations, tests and benches.
//
// Owner: whoever started it. The destructor ends the process and removes the directory. The child dies with its parent. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "shm/error.h"

namespace kvd {

class DaemonProcess {
 public:
  struct Options {
    std::string kvd_path;                  // the binary
    std::vector<std::string> arguments{};  // besides --socket and --state-dir, which it sets
    std::string log_path{};                // "": a file in its directory, see log_text()
    int start_seconds_max = 60;
  };
  // Returns when the daemon takes connections. Errors: kIo; kDisconnected with the daemon's own
  // words if it ended; kTimeout.
  static Result<DaemonProcess> Start(const Options& options);

  DaemonProcess(DaemonProcess&& other) noexcept;
  DaemonProcess& operator=(DaemonProcess&&) = delete;
  ~DaemonProcess();

  const std::string& socket_path() const { return socket_path_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  std::string log_text() const;  // what it has written so far

  // SIGTERM, then waits. Errors: kTimeout (killed after 30 s), kInternal (an exit status other than
  // 0, in the message).
  Status Stop();
  // SIGKILL, then waits.
  void Kill();
  // After either: another process over the same directory, with other arguments if some are given.
  // Returns when it takes connections, with the errors of Start.
  Status StartAgain();
  Status StartAgain(std::vector<std::string> arguments);

 private:
  DaemonProcess() = default;
  Status Launch();
  Status WaitUntilReady(int seconds_max);

  Options options_;

  std::string folder_;  // 0700; holds socket, state and log
  std::string socket_path_;
  std::string log_path_;
  pid_t pid_ = -1;
};

// Where kvd lies: the running program's folder, or bin/ beside it. KVD_BIN overrides both.
std::string BinaryFolder();

}  // namespace kvd
