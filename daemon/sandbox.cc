// The restrictions are set in this order: no_new_privs first, because Landlock and seccomp require
// no_new_privs for unprivileged processes; then Landlock; then seccomp, whose filter refuses
// Landlock's system calls.
#include "daemon/sandbox.h"

#include <dirent.h>
#include <sys/prctl.h>

#include <utility>

#include "base/error.h"
#include "daemon/landlock_rules.h"
#include "daemon/syscall_filter.h"

namespace kvd {
namespace {

// Returns the number of threads of this process, or 0 if the number is unknown.
std::size_t CountThreads() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  std::size_t threads = 0;
  while (const dirent* const entry = ::readdir(tasks)) threads += entry->d_name[0] != '.';
  ::closedir(tasks);
  return threads;
}

std::vector<LandlockRule> RulesFor(const SandboxPaths& paths) {
  std::vector<LandlockRule> rules = {{.path = "/proc", .files = kLandlockReads},
                                     {.path = "/sys", .files = kLandlockReads}};
  const auto add = [&rules](const std::vector<std::string>& all, std::uint64_t files) {
    for (const std::string& path : all) rules.push_back({.path = path, .files = files});
  };
  add(paths.data, kLandlockWholeFiles);
  add(paths.runtime, kLandlockRemoves);
  add(paths.read_only, kLandlockReads);
  return rules;
}

}  // namespace

std::string Sandbox::text() const {
  return (landlock_abi == 0 ? "landlock=off" : Concat("landlock=abi", landlock_abi)) +
         (filters_syscalls ? " seccomp=on" : " seccomp=off");
}

Sandbox EnterSandbox(const SandboxPaths& paths) {
  Sandbox sandbox;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    sandbox.missing.push_back(FailErrno("no_new_privs").error().message);
    return sandbox;
  }
  if (const std::size_t threads = CountThreads(); threads > 1) {
    sandbox.missing.push_back(
        Concat("landlock: ", threads - 1,
               " threads began before the sandbox and are not restricted by it"));
  }
  if (const Result<int> abi = RestrictFiles(RulesFor(paths))) {
    sandbox.landlock_abi = *abi;
    for (std::string& gap : GapsOfAbi(*abi)) sandbox.missing.push_back(std::move(gap));
  } else {
    sandbox.missing.push_back(abi.error().message);
  }
  const Status filtered = FilterSyscalls();
  sandbox.filters_syscalls = filtered.has_value();
  if (!filtered) sandbox.missing.push_back(filtered.error().message);
  return sandbox;
}

}  // namespace kvd
