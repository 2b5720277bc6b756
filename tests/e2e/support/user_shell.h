// UserShell: runs command lines as a user with a runtime directory of its own does, so that the
// daemons that they start have default names, sockets and states and meet no other test's.
#pragma once

#include <string>
#include <vector>

#include "tests/e2e/support/temporary_folder.h"

namespace kvd::test {

struct ShellOutcome {
  int exit_code = -1;
  std::string output;  // standard output and error
};

class UserShell {
 public:
  UserShell();
  ~UserShell();  // stops the daemons that StartDaemon has started
  UserShell(const UserShell&) = delete;
  UserShell& operator=(const UserShell&) = delete;

  // The user's folder, which is the runtime directory and the working directory of the lines, and
  // on a tmpfs if the machine has one.
  const std::filesystem::path& folder() const { return folder_.path(); }
  // Runs a line. kvd, kvctl and the examples are in PATH; ROOT is the project's folder.
  ShellOutcome Run(const std::string& line) const;
  // The same; the line must succeed. Returns its output.
  std::string Done(const std::string& line) const;
  // Starts `kvd FLAGS`, one small daemon, and waits until `kvctl CLIENT_FLAGS ping` succeeds.
  // Returns its process id; 0: it did not start, which fails the test.
  int StartDaemon(const std::string& flags, const std::string& client_flags);
  // Sends a signal and waits until the process has ended.
  void End(int pid, const std::string& signal) const;

 private:
  TemporaryFolder folder_;
  std::vector<int> daemons_;
};

}  // namespace kvd::test
