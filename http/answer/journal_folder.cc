#include "http/answer/journal_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/file_calls.h"
#include "base/siphash.h"
#include "base/text.h"

namespace kvd::http {
namespace {

constexpr std::string_view kJournalEnding = ".journal";
constexpr std::string_view kBadEnding = ".bad";

}  // namespace

Result<JournalFolder> JournalFolder::Open(const std::string& path) {
  JournalFolder folder;
  if (path.empty()) return folder;
  if (FileCalls::MakeDirectory(path, 0700) != 0 && errno != EEXIST) return FailErrno(path);
  folder.directory_ =
      UniqueFd(FileCalls::Open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.directory_) return FailErrno(path);
  return folder;
}

std::string JournalFolder::NameOf(const std::string& tenant, const std::string& id) {
  const std::string key = Concat(tenant.size(), ":", tenant, id);
  char name[64];
  std::snprintf(name, sizeof name, "%016llx%016llx",
                static_cast<unsigned long long>(SipHash24(1, 2, key)),
                static_cast<unsigned long long>(SipHash24(3, 4, key)));
  return Concat(std::string_view(name), kJournalEnding);
}

Result<std::vector<std::string>> JournalFolder::NamesWith(std::string_view ending) const {
  std::vector<std::string> names;
  if (!directory_) return names;
  UniqueFd opened(
      FileCalls::Open(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  DIR* const directory = opened ? ::fdopendir(opened.get()) : nullptr;
  if (directory == nullptr) return FailErrno("journals");
  (void)opened.release();
  while (const dirent* const entry = ::readdir(directory)) {
    if (std::string_view(entry->d_name).ends_with(ending)) names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  return names;
}

Result<std::vector<std::string>> JournalFolder::Names() const { return NamesWith(kJournalEnding); }

Result<std::string> JournalFolder::SetAside(const std::string& name) const {
  const std::string stem = name.substr(0, name.size() - kJournalEnding.size());
  std::string bad = Concat(stem, kBadEnding);
  if (FileCalls::Rename(directory_.get(), name, bad) != 0) {
    return FailErrno(Concat("journal ", name));
  }
  RemoveOldestBad();
  return bad;
}

void JournalFolder::RemoveOldestBad() const {
  const auto names = NamesWith(kBadEnding);
  if (!names || names->size() <= kBadMax) return;
  std::vector<std::pair<std::int64_t, std::string>> files;  // by the time of the last record
  for (const std::string& name : *names) {
    struct stat status{};
    if (::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    files.emplace_back(status.st_mtim.tv_sec, name);
  }
  std::ranges::sort(files);
  const std::size_t count = files.size() - std::min(files.size(), kBadMax);
  for (std::size_t i = 0; i < count; ++i) {
    (void)FileCalls::Unlink(directory_.get(), files[i].second);
  }
}

}  // namespace kvd::http
