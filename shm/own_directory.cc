// The directory ROOT (such as /tmp) has the sticky bit, so other users cannot remove or rename the
// directories of this uid. Between the check of a directory and its use, another user can at most
// create a new name.
#include "shm/own_directory.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

namespace kvd {
namespace {

constexpr std::size_t kNamesMax = 1u << 20;
constexpr std::size_t kSuffixDigits = 16;
constexpr char kHexDigits[] = "0123456789abcdef";
constexpr int kTriesMax = 4;

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

// Returns whether `text` is "-" followed by as many hexadecimal digits as RandomSuffix creates.
bool IsSuffix(std::string_view text) {
  return text.size() == 1 + kSuffixDigits && text.front() == '-' &&
         text.find_first_not_of(kHexDigits, 1) == std::string_view::npos;
}

std::string RandomSuffix() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return {};
  std::string suffix = "-";
  for (std::size_t i = 0; i < kSuffixDigits; ++i, number >>= 4) suffix += kHexDigits[number & 15];
  return suffix;
}

// Returns the reason why the found file is not a usable directory; an empty text means that the
// file is a usable directory.
std::string Objection(const struct stat& found, mode_t forbidden_mode) {
  if (!S_ISDIR(found.st_mode)) return "is not a directory, or is a symbolic link";
  if (found.st_uid != ::geteuid()) {
    return Concat("belongs to uid ", found.st_uid, ", not to ours (", ::geteuid(), ")");
  }
  if ((found.st_mode & forbidden_mode) != 0) {
    return "mode " + OctalMode(found.st_mode & 07777) + " lets others in";
  }
  return {};
}

std::unexpected<Error> FailMaking(const std::string& path) {
  const int saved = errno;
  return Fail(saved == ENOSPC || saved == EDQUOT ? Code::kNoSpace : Code::kIo, path,
              ": cannot create it: ", std::generic_category().message(saved));
}

}  // namespace

OwnDirectories FindOwnDirectories(const std::string& root, const std::string& stem,
                                  mode_t forbidden_mode) {
  OwnDirectories found;
  const std::unique_ptr<DIR, CloseListing> listing(::opendir(root.c_str()));
  const int directory = listing == nullptr ? -1 : ::dirfd(listing.get());
  if (directory < 0) return found;
  std::vector<std::string> names = {stem};
  for (std::size_t read = 0; read < kNamesMax; ++read) {
    const dirent* const entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.starts_with(stem) && IsSuffix(name.substr(stem.size()))) names.emplace_back(name);
  }
  std::sort(names.begin() + 1, names.end());
  const std::string prefix = root + "/";
  for (const std::string& name : names) {
    struct stat about{};
    if (::fstatat(directory, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::string path = prefix + name;
    const std::string objection = Objection(about, forbidden_mode);
    if (objection.empty()) {
      found.usable.push_back(path);
    } else if (name == stem || about.st_uid == ::geteuid()) {
      found.passed_over.emplace_back(path).append(": " + objection);
    }
  }
  return found;
}

Result<std::string> MakeOwnDirectory(const std::string& root, const std::string& stem,
                                     mode_t forbidden_mode) {
  const OwnDirectories found = FindOwnDirectories(root, stem, forbidden_mode);
  if (!found.usable.empty()) return found.usable.front();
  const std::string expected = root + "/" + stem;
  std::string path = expected;
  for (int attempt = 0; attempt < kTriesMax; ++attempt) {
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return FailMaking(path);
    path = expected + RandomSuffix();
  }
  return FailMaking(path);
}

}  // namespace kvd
