#include "http/answer/response_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/file_calls.h"
#include "base/siphash.h"
#include "base/text.h"

namespace kvd::http {
namespace {

constexpr std::string_view kPrefix = "resp_";
constexpr std::size_t kDigits = 32;
constexpr std::string_view kNewEnding = ".new";

std::unexpected<Error> NoResponse(std::string_view id) {
  return Fail(Code::kNotFound, "response: no stored response has the id \"", id.substr(0, 64),
              "\"");
}

// The error of a file or folder that could not be opened or removed.
std::unexpected<Error> NoFile(std::string_view id) {
  const bool is_missing = errno == ENOENT || errno == ELOOP || errno == ENOTDIR;
  return is_missing ? NoResponse(id) : FailErrno("response");
}

std::string FolderName(const std::string& tenant) {
  char name[64];
  std::snprintf(name, sizeof name, "t%016llx%016llx",
                static_cast<unsigned long long>(SipHash24(5, 6, tenant)),
                static_cast<unsigned long long>(SipHash24(7, 8, tenant)));
  return name;
}

}  // namespace

bool ResponseStore::IsId(std::string_view id) {
  if (id.size() != kPrefix.size() + kDigits || !id.starts_with(kPrefix)) return false;
  return std::ranges::all_of(id.substr(kPrefix.size()), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

Result<std::unique_ptr<ResponseStore>> ResponseStore::Open(const std::string& directory) {
  UniqueFd opened;
  if (!directory.empty()) {
    if (FileCalls::MakeDirectory(directory, 0700) != 0 && errno != EEXIST)
      return FailErrno(directory);
    opened = UniqueFd(
        FileCalls::Open(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!opened) return FailErrno(directory);
  }
  return std::unique_ptr<ResponseStore>(new ResponseStore(std::move(opened)));
}

UniqueFd ResponseStore::OpenFolder(const std::string& tenant) const {
  return UniqueFd(FileCalls::Open(directory_.get(), FolderName(tenant),
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

void ResponseStore::RemoveOldest(int folder) {
  DIR* const directory = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory == nullptr) return;
  std::vector<std::pair<std::int64_t, std::string>> files;  // by time of writing
  while (const dirent* const entry = ::readdir(directory)) {
    struct stat status{};
    // Put has ended, so this is of a process that was killed while it wrote.
    if (std::string_view(entry->d_name).ends_with(kNewEnding)) {
      (void)FileCalls::Unlink(folder, entry->d_name);
    }
    if (!IsId(entry->d_name) || ::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    files.emplace_back(status.st_mtim.tv_sec, entry->d_name);
  }
  ::closedir(directory);
  if (files.size() <= kResponsesMax) return;
  std::ranges::sort(files);
  files.resize(files.size() - kResponsesMax);
  for (const auto& [time, name] : files) (void)FileCalls::Unlink(folder, name);
}

Status ResponseStore::Put(const std::string& tenant, const std::string& id, std::string_view json) {
  if (!directory_) return {};
  if (json.size() > kBytesMax) {
    return Fail(Code::kTooLarge, "response: ", json.size(), " bytes are more than ", kBytesMax);
  }
  const std::string name = FolderName(tenant);
  const bool has_folder =
      FileCalls::MakeDirectoryAt(directory_.get(), name, 0700) == 0 || errno == EEXIST;
  const UniqueFd folder = has_folder ? OpenFolder(tenant) : UniqueFd();
  if (!folder) return FailErrno("responses");
  const std::string temporary = Concat(id, kNewEnding);
  (void)FileCalls::Unlink(folder.get(), temporary);
  const UniqueFd file(FileCalls::Open(folder.get(), temporary,
                                      O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailErrno("response");
  const Status written = FileCalls::WriteAll(file.get(), json, "response");
  if (written && FileCalls::Rename(folder.get(), temporary, id) == 0) {
    // Listing the folder takes as long as it has files, so it is not done each time.
    if (++puts_ % kPutsBetweenListings == 0) RemoveOldest(folder.get());
    return {};
  }
  const Status failed = written ? Status(FailErrno("response")) : written;
  (void)FileCalls::Unlink(folder.get(), temporary);
  return failed;
}

Result<std::string> ResponseStore::Get(const std::string& tenant, std::string_view id) const {
  if (!directory_ || !IsId(id)) return NoResponse(id);
  const UniqueFd folder = OpenFolder(tenant);
  if (!folder) return NoFile(id);
  const UniqueFd file(
      FileCalls::Open(folder.get(), std::string(id), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return NoFile(id);
  std::string bytes;
  char portion[1u << 14];
  for (;;) {
    const ssize_t count =
        FileCalls::Read(file.get(), portion, sizeof portion, static_cast<off_t>(bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FailErrno("response");
    if (count == 0) return bytes;
    bytes.append(portion, static_cast<std::size_t>(count));
    if (bytes.size() > kBytesMax) return Fail(Code::kCorrupt, "response: the file is too long");
  }
}

Status ResponseStore::Remove(const std::string& tenant, std::string_view id) {
  if (!directory_ || !IsId(id)) return NoResponse(id);
  const UniqueFd folder = OpenFolder(tenant);
  if (!folder || FileCalls::Unlink(folder.get(), std::string(id)) != 0) return NoFile(id);
  return {};
}

}  // namespace kvd::http
