#include "daemon/sessions/client_process.h"
#include "base/text.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace kvd {
namespace {

// Returns the start time of the process, which is the 22nd field of /proc/PID/stat (proc(5)), or 0
// if the start time is unknown.
std::uint64_t StartOf(pid_t pid) {
  std::ifstream file(Concat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field of /proc/PID/stat is a name in parentheses that may contain any characters.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(fields >> field)) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

// Returns the inode number of this process's pid namespace, or 0 if the number is unknown. Inode
// numbers of namespaces have 32 bits (struct ns_common of the kernel).
std::uint32_t OwnNamespace() {
  struct stat about{};
  if (::stat("/proc/self/ns/pid", &about) != 0) return 0;
  return std::in_range<std::uint32_t>(about.st_ino) ? static_cast<std::uint32_t>(about.st_ino) : 0;
}

}  // namespace

ClientProcess DescribeProcess(pid_t pid) {
  if (pid <= 0) return {};
  const ClientProcess process{.pid = static_cast<std::uint32_t>(pid),
                              .start = StartOf(pid),
                              .pid_namespace = OwnNamespace()};
  return process.start == 0 || process.pid_namespace == 0 ? ClientProcess{} : process;
}

FoundProcess FindProcess(const ClientProcess& process) {
  FoundProcess found;
  if (process.pid == 0 || process.pid_namespace != OwnNamespace()) return found;
  const auto pid = static_cast<pid_t>(process.pid);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)));
  if (!pidfd) {
    found.is_gone = errno == ESRCH;
    return found;
  }
  const std::uint64_t start = StartOf(pid);
  found.is_gone = start != 0 && start != process.start;
  if (start == process.start) found.pidfd = std::move(pidfd);
  return found;
}

}  // namespace kvd
