#include "tests/e2e/support/user_shell.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::test {
namespace {

std::filesystem::path ParentFolder() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

}  // namespace

UserShell::UserShell() : folder_(ParentFolder()) {}

UserShell::~UserShell() {
  for (const int daemon : daemons_) End(daemon, "TERM");
}

ShellOutcome UserShell::Run(const std::string& line) const {
  const std::string folder = folder_.path().string();
  const std::string root = std::filesystem::current_path().string();
  const std::string command =
      Concat("unset KVD_SOCKET; export XDG_RUNTIME_DIR=", folder, " TMPDIR=", folder,
             " ROOT=", root, " PATH=", std::filesystem::absolute(BinaryFolder()).string(),
             ":\"$PATH\"; cd ", folder, "; { ", line, "\n} 2>&1");
  ShellOutcome outcome;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

std::string UserShell::Done(const std::string& line) const {
  const ShellOutcome outcome = Run(line);
  EXPECT_EQ(outcome.exit_code, 0) << line << ": " << outcome.output;
  return outcome.output;
}

int UserShell::StartDaemon(const std::string& flags, const std::string& client_flags) {
  const std::string log = Concat("log", daemons_.size());
  const int pid = std::atoi(
      Done(Concat("kvd -t 1 -c 1024 --no-tuning ", flags, " >", log, " 2>&1 & echo $!")).c_str());
  if (pid > 0) daemons_.push_back(pid);
  const ShellOutcome answered =
      Run(Concat("for i in $(seq 600); do kvctl ", client_flags,
                 " ping -c 1 >/dev/null 2>&1 && exit 0; sleep 0.1; done; cat ", log, "; exit 1"));
  EXPECT_EQ(answered.exit_code, 0) << answered.output;
  return answered.exit_code == 0 ? pid : 0;
}

void UserShell::End(int pid, const std::string& signal) const {
  // The process is no child of this one, and its parent may not have taken its status.
  const std::string status = Concat("/proc/", pid, "/status");
  (void)Run(Concat("kill -", signal, " ", pid, "; while [ -e ", status,
                   " ] && ! grep -q '^State:.Z' ", status, "; do sleep 0.02; done"));
}

}  // namespace kvd::test
