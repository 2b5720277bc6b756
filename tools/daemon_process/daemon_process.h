// DaemonProcess: a kvd process with a private directory, for demonstrations, tests and benches.
//
// Owner: the caller of Start. The destructor of DaemonProcess ends the process and removes the
// directory. The daemon is killed when its parent process dies. One thread uses a DaemonProcess.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kvd {

class DaemonProcess {
 public:
  struct Options {
    std::string kvd_path;  // the binary
    // Arguments in addition to --socket and --state-dir, which Start sets.
    std::vector<std::string> arguments{};
    // Path of the log; empty: the log is a file in the private directory (see log_text()).
    std::string log_path{};
    int start_seconds_max = 60;
  };
  // Starts a daemon and returns when the daemon accepts connections. Errors: kIo; kDisconnected
  // (the daemon has ended; the message has its log); kTimeout.
  static Result<DaemonProcess> Start(const Options& options);

  DaemonProcess(DaemonProcess&& other) noexcept;
  DaemonProcess& operator=(DaemonProcess&&) = delete;
  ~DaemonProcess();

  const std::string& socket_path() const { return socket_path_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  std::string log_text() const;  // returns the daemon's log up to now

  // Sends SIGTERM and waits until the daemon has ended. Errors: kTimeout (the daemon was killed
  // after 30 s), kInternal (the exit status was not 0; the message has the status).
  Status Stop();
  // Sends SIGKILL and waits until the daemon has ended.
  void Kill();
  // StartAgain is called after Stop or Kill. StartAgain starts another process with the same
  // directory, with other arguments if given, and returns when the new process accepts connections.
  // Errors: those of Start.
  Status StartAgain();
  Status StartAgain(std::vector<std::string> arguments);

 private:
  DaemonProcess() = default;
  Status Launch();
  Status WaitUntilReady(int seconds_max);

  Options options_;

  // The private directory, which has mode 0700 and contains the socket, the state and the log.
  std::string folder_;
  std::string socket_path_;
  std::string log_path_;
  pid_t pid_ = -1;
};

// Returns the folder of the program kvd: the running program's folder, or the folder bin/ next to
// that folder. KVD_BIN overrides both.
std::string BinaryFolder();

}  // namespace kvd
