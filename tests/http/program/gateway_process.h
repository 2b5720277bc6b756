// GatewayProcess: a kvd-http process whose files, and those of its daemon, are in a folder of the
// test.
//
// The destructor kills the gateway and the daemon that it has started. One thread uses a
// GatewayProcess.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/http/serve/raw_client.h"

namespace kvd::http::test {

class GatewayProcess {
 public:
  // Starts kvd-http with --port 0 and further arguments. `folder` exists. `names_state`: the daemon
  // gets the flag --state-dir, for tests that look at its files.
  GatewayProcess(std::string folder, std::vector<std::string> arguments, bool names_state = true);
  ~GatewayProcess();
  GatewayProcess(const GatewayProcess&) = delete;
  GatewayProcess& operator=(const GatewayProcess&) = delete;

  // Waits until GET /health answers 200. False: it did not within a minute, or kvd-http has ended.
  bool WaitUntilReady();
  // Waits until standard error has the text.
  bool WaitForText(const std::string& text) const;
  std::string error_text() const;
  std::uint16_t port() const { return port_; }
  // The number behind "pid " in standard error; -1: none.
  pid_t daemon_pid() const;

  ReceivedReply Get(const std::string& target, const std::string& headers = "") const;
  ReceivedReply Post(const std::string& target, const std::string& body,
                     const std::string& headers = "") const;

  void Signal(int number) const;
  // Waits for the end and returns the exit status, or 128 and the number of the signal.
  int Wait();

 private:
  std::string folder_;
  std::string error_path_;
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

// Returns whether the process exists and has not ended.
bool IsAlive(pid_t pid);
// Waits until the process has ended. False: it lives on after a minute.
bool WaitForEnd(pid_t pid);

}  // namespace kvd::http::test
