#include "daemon/client_process.h"

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

// The 22nd field of /proc/PID/stat; 0: not known.
std::uint64_t StartOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field, a name in brackets, may hold anything.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(fields >> field)) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

// Inode numbers of namespaces have 32 bits (struct ns_common of the kernel). 0: not known.
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
