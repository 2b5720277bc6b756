#include "http/answer/response_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/siphash.h"
#include "base/text.h"

namespace kvd::http {
namespace {

constexpr std::string_view kPrefix = "resp_";
constexpr std::size_t kDigits = 32;

std::unexpected<Error> NoResponse(std::string_view id) {
  return Fail(Code::kNotFound, "response: no stored response has the id \"", id.substr(0, 64),
              "\"");
}

std::string FolderName(const std::string& tenant) {
  char name[64];
  std::snprintf(name, sizeof name, "t%016llx%016llx",
                static_cast<unsigned long long>(SipHash24(5, 6, tenant)),
                static_cast<unsigned long long>(SipHash24(7, 8, tenant)));
  return name;
}

Status WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0) return FailErrno("response");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
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
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(directory);
    opened = UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!opened) return FailErrno(directory);
  }
  return std::unique_ptr<ResponseStore>(new ResponseStore(std::move(opened)));
}

Result<UniqueFd> ResponseStore::Folder(const std::string& tenant, bool is_made) const {
  const std::string name = FolderName(tenant);
  if (is_made && ::mkdirat(directory_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailErrno("responses");
  }
  UniqueFd folder(
      ::openat(directory_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder) return FailErrno("responses");
  return folder;
}

void ResponseStore::RemoveOldest(int folder) {
  DIR* const directory = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory == nullptr) return;
  std::vector<std::pair<std::int64_t, std::string>> files;  // by time of writing
  while (const dirent* const entry = ::readdir(directory)) {
    struct stat status{};
    if (!IsId(entry->d_name) || ::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    files.emplace_back(status.st_mtim.tv_sec, entry->d_name);
  }
  ::closedir(directory);
  if (files.size() <= kResponsesMax) return;
  std::ranges::sort(files);
  files.resize(files.size() - kResponsesMax);
  for (const auto& [time, name] : files) (void)::unlinkat(folder, name.c_str(), 0);
}

Status ResponseStore::Put(const std::string& tenant, const std::string& id, std::string_view json) {
  if (!directory_) return {};
  if (json.size() > kBytesMax) {
    return Fail(Code::kNoSpace, "response: ", json.size(), " bytes are more than ", kBytesMax);
  }
  KVD_TRY(const UniqueFd folder, Folder(tenant, true));
  const std::string temporary = id + ".new";
  (void)::unlinkat(folder.get(), temporary.c_str(), 0);
  const UniqueFd file(::openat(folder.get(), temporary.c_str(),
                               O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailErrno("response");
  const Status written = WriteAll(file.get(), json);
  if (written && ::renameat(folder.get(), temporary.c_str(), folder.get(), id.c_str()) == 0) {
    // Listing the folder takes as long as it has files, so it is not done each time.
    if (++puts_ % kPutsBetweenListings == 0) RemoveOldest(folder.get());
    return {};
  }
  const Status failed = written ? Status(FailErrno("response")) : written;
  (void)::unlinkat(folder.get(), temporary.c_str(), 0);
  return failed;
}

Result<std::string> ResponseStore::Get(const std::string& tenant, std::string_view id) const {
  if (!directory_ || !IsId(id)) return NoResponse(id);
  const Result<UniqueFd> folder = Folder(tenant, false);
  if (!folder) return NoResponse(id);
  const UniqueFd file(
      ::openat(folder->get(), std::string(id).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return NoResponse(id);
  std::string bytes;
  char portion[1u << 14];
  for (;;) {
    const ssize_t count = ::read(file.get(), portion, sizeof portion);
    if (count < 0) return FailErrno("response");
    if (count == 0) return bytes;
    bytes.append(portion, static_cast<std::size_t>(count));
    if (bytes.size() > kBytesMax) return Fail(Code::kCorrupt, "response: the file is too long");
  }
}

Status ResponseStore::Remove(const std::string& tenant, std::string_view id) {
  if (!directory_ || !IsId(id)) return NoResponse(id);
  const Result<UniqueFd> folder = Folder(tenant, false);
  if (!folder || ::unlinkat(folder->get(), std::string(id).c_str(), 0) != 0) {
    return NoResponse(id);
  }
  return {};
}

}  // namespace kvd::http
