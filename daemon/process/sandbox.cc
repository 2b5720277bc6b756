#include "daemon/process/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// A ruleset lists the rights that it restricts. A kernel refuses a ruleset with an unknown right,
// so the list is limited to the rights of the kernel's Landlock version.

namespace {

// Constants of include/uapi/linux/landlock.h of Linux 6.18 that Debian 12's header lacks.
constexpr std::uint64_t kTruncate = 1ull << 14;     // version 3
constexpr std::uint64_t kIoctlDevice = 1ull << 15;  // version 5
constexpr std::uint64_t kBindTcp = 1ull << 0;       // version 4
constexpr std::uint64_t kConnectTcp = 1ull << 1;
constexpr std::uint64_t kScopeAbstractSockets = 1ull << 0;  // version 6
constexpr std::uint64_t kScopeSignals = 1ull << 1;

constexpr std::uint64_t kFilesOfAbi1 = LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1;
constexpr std::uint64_t kOfOneFile = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                     LANDLOCK_ACCESS_FS_READ_FILE | kTruncate | kIoctlDevice;

// struct landlock_ruleset_attr as of version 6. Older kernels accept the struct if the fields that
// they do not know are zero.
struct RulesetAttributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};
static_assert(sizeof(RulesetAttributes) == 24);

Result<int> KernelAbi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi >= 1) return static_cast<int>(std::min<long>(abi, kLandlockAbiMax));
  if (errno == EOPNOTSUPP) {
    return Fail(Code::kUnsupported, "landlock: disabled when the system was booted");
  }
  return Fail(Code::kUnsupported, "landlock: not in this kernel, or not permitted: ",
              FailErrno("version").error().message);
}

Status AddRule(int ruleset, const LandlockRule& rule, std::uint64_t handled) {
  const UniqueFd place(::open(rule.path.c_str(), O_PATH | O_CLOEXEC));
  // A path that cannot be opened gets no rule; the code that opens this path later reports the
  // error.
  if (!place) return {};
  struct stat about{};
  if (::fstat(place.get(), &about) != 0) return FailErrno("landlock: " + rule.path);
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = rule.files & handled;
  if (!S_ISDIR(about.st_mode)) beneath.allowed_access &= kOfOneFile;
  beneath.parent_fd = place.get();
  if (beneath.allowed_access == 0) return {};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) {
    return FailErrno("landlock: a rule for " + rule.path);
  }
  return {};
}

}  // namespace

const std::uint64_t kLandlockReads = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
const std::uint64_t kLandlockRemoves = LANDLOCK_ACCESS_FS_REMOVE_FILE;
const std::uint64_t kLandlockRemovesEmpty = LANDLOCK_ACCESS_FS_REMOVE_DIR;
const std::uint64_t kLandlockWholeFiles =
    kLandlockReads | kLandlockRemoves | LANDLOCK_ACCESS_FS_WRITE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | kTruncate;

LandlockAccess AccessOfAbi(int abi) {
  LandlockAccess access;
  if (abi >= 1) access.files = kFilesOfAbi1;
  if (abi >= 2) access.files |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) access.files |= kTruncate;
  if (abi >= 4) access.network = kBindTcp | kConnectTcp;
  if (abi >= 5) access.files |= kIoctlDevice;
  if (abi >= 6) access.scopes = kScopeAbstractSockets | kScopeSignals;
  return access;
}

std::vector<std::string> GapsOfAbi(int abi) {
  std::vector<std::string> gaps;
  if (abi < 3) gaps.emplace_back("truncating files (needs landlock abi 3)");
  if (abi < 4) gaps.emplace_back("TCP ports (needs landlock abi 4)");
  if (abi < 5) gaps.emplace_back("ioctl on devices (needs landlock abi 5)");
  if (abi < 6) gaps.emplace_back("signals and abstract sockets (needs landlock abi 6)");
  return gaps;
}

Result<int> RestrictFiles(const std::vector<LandlockRule>& rules) {
  KVD_TRY(const int abi, KernelAbi());
  const LandlockAccess access = AccessOfAbi(abi);
  const RulesetAttributes attributes{.handled_access_fs = access.files,
                                     .handled_access_net = access.network,
                                     .scoped = access.scopes};
  const UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  if (!ruleset) return FailErrno("landlock: a ruleset");
  for (const LandlockRule& rule : rules) {
    KVD_CHECK_OK(AddRule(ruleset.get(), rule, access.files));
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return FailErrno("landlock: restricting this process");
  }
  return abi;
}

// The restrictions are set in this order: no_new_privs first, because Landlock and seccomp require
// no_new_privs for unprivileged processes; then Landlock; then seccomp, whose filter refuses
// Landlock's system calls.

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
  add(paths.emptied, kLandlockRemovesEmpty);
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
