// Names that begin with a dot belong to this code and are not entries: ".key", ".key-PID" (its
// temporary file), ".lock-ENTRY", and the temporary files of StateFileWriter.
#include "engine/saved_state/prompt_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/text.h"
#include "engine/saved_state/state_file.h"

namespace kvd {
namespace {

constexpr std::string_view kSuffix = ".prompt";
constexpr std::string_view kLockPrefix = ".lock-";
constexpr const char* kKeyName = ".key";
constexpr std::size_t kHashDigits = 16;

using Key = std::array<std::uint64_t, 2>;

void AppendHex(std::uint64_t number, std::string* text) {
  for (int shift = 60; shift >= 0; shift -= 4) {
    text->push_back("0123456789abcdef"[number >> shift & 0xf]);
  }
}

std::optional<std::uint64_t> ParseHex(std::string_view digits) {
  std::uint64_t number = 0;
  const bool is_lower = std::ranges::none_of(digits, [](char c) { return c >= 'A' && c <= 'F'; });
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (!is_lower || parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return number;
}

Result<std::vector<std::string>> NamesIn(int directory) {
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return FailErrno("opening the prompt cache");
  struct Closer {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Closer> listing(::fdopendir(copy));
  if (listing == nullptr) {
    ::close(copy);
    return FailErrno("listing the prompt cache");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) names.emplace_back(entry->d_name);
  return names;
}

// Reads the key; nullopt: the file does not exist.
Result<std::optional<Key>> ReadKey(int directory, const std::string& path) {
  const UniqueFd file(
      ::openat(directory, kKeyName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) return FailErrno("--cache-dir " + path + ": the key");
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno("--cache-dir " + path + ": the key");
  if (about.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, "--cache-dir ", path, ": the key belongs to another user");
  }
  Key key = {};
  if (!S_ISREG(about.st_mode) || about.st_size != sizeof key ||
      ::pread(file.get(), key.data(), sizeof key, 0) != sizeof key) {
    return Fail(Code::kCorrupt, "--cache-dir ", path, ": .key is not a file of ", sizeof key,
                " bytes");
  }
  return key;
}

// If several daemons start at once, one daemon creates the key and the other daemons read it.
Result<Key> MakeKey(int directory, const std::string& path) {
  KVD_TRY(const std::optional<Key> held, ReadKey(directory, path));
  if (held) return *held;
  Key key = {};
  if (::getrandom(key.data(), sizeof key, 0) != sizeof key)
    return FailErrno("generating the key of the prompt cache");
  const std::string temporary = Concat(".key-", ::getpid());
  (void)::unlinkat(directory, temporary.c_str(), 0);
  const UniqueFd file(::openat(directory, temporary.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const bool is_written =
      file && ::write(file.get(), key.data(), sizeof key) == sizeof key && ::fsync(file.get()) == 0;
  const int linked =
      is_written ? ::linkat(directory, temporary.c_str(), directory, kKeyName, 0) : -1;
  const bool is_there = linked == 0 || (is_written && errno == EEXIST);
  if (!is_there) {
    const auto failure = FailErrno("--cache-dir " + path + ": making the key");
    (void)::unlinkat(directory, temporary.c_str(), 0);
    return failure;
  }
  (void)::unlinkat(directory, temporary.c_str(), 0);
  KVD_TRY(const std::optional<Key> made, ReadKey(directory, path));
  if (made) return *made;
  return Fail(Code::kIo, "--cache-dir ", path, ": the key was removed while it was created");
}

}  // namespace

Result<PromptDirectory> PromptDirectory::Open(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno("--cache-dir " + path);
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return FailErrno("--cache-dir " + path);
  struct stat about{};
  if (::fstat(directory.get(), &about) != 0) return FailErrno("--cache-dir " + path);
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return Fail(Code::kPermission, "--cache-dir ", path,
                ": must be owned by this user with mode 0700");
  }
  KVD_TRY(const Key key, MakeKey(directory.get(), path));
  UniqueFd changes(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const std::string itself = Concat("/proc/self/fd/", directory.get());
  if (changes && ::inotify_add_watch(changes.get(), itself.c_str(),
                                     IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) < 0) {
    changes = UniqueFd();
  }
  return PromptDirectory(std::move(directory), std::move(changes), key);
}

std::string PromptDirectory::NameOf(const PromptName& parts) {
  std::string name;
  AppendHex(parts.model, &name);
  name += '-';
  AppendHex(parts.prompt, &name);
  if (parts.owner) {
    name += '-';
    AppendHex(static_cast<std::uint64_t>(*parts.owner), &name);
  }
  return name += kSuffix;
}

std::optional<PromptName> PromptDirectory::ParseName(std::string_view name) {
  // The digits of a field and the character after them: '-', or the '.' of the suffix.
  constexpr std::size_t kFieldChars = kHashDigits + 1;
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size() - 1);
  const std::size_t field_count = name.size() / kFieldChars;
  if (name.size() % kFieldChars != 0 || field_count < 2 || field_count > 3) return std::nullopt;
  std::array<std::uint64_t, 3> fields = {};
  for (std::size_t i = 0; i < field_count; ++i) {
    const std::string_view field = name.substr(i * kFieldChars, kFieldChars);
    const auto number = ParseHex(field.substr(0, kHashDigits));
    if (!number || field.back() != (i + 1 < field_count ? '-' : '.')) return std::nullopt;
    fields[i] = *number;
  }
  PromptName parts{.model = fields[0], .prompt = fields[1], .owner = {}};
  if (field_count == 3) parts.owner = OwnerId{fields[2]};
  return parts;
}

Result<std::vector<PromptFile>> PromptDirectory::List() const {
  KVD_TRY(const std::vector<std::string> names, NamesIn(directory_.get()));
  std::vector<PromptFile> files;
  for (const std::string& name : names) {
    struct stat about{};
    const std::optional<PromptName> parts = ParseName(name);
    if (!parts || ::fstatat(directory_.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    files.push_back(
        {.name = name,
         .owner = parts->owner,
         .bytes = static_cast<std::uint64_t>(about.st_size),
         .used_ns = std::int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec});
  }
  return files;
}

Result<UniqueFd> PromptDirectory::OpenFile(const std::string& name) const {
  // With O_NONBLOCK, the open does not block if the entry is a pipe.
  UniqueFd file(
      ::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return Fail(Code::kNotFound, name, ": no such entry");
  if (!file && errno == ELOOP) return Fail(Code::kPermission, name, ": is a symbolic link");
  if (!file) return FailErrno(name);
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno(name);
  if (!S_ISREG(about.st_mode)) return Fail(Code::kPermission, name, ": is not a regular file");
  if (about.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, name, ": belongs to uid ", about.st_uid);
  }
  return file;
}

void PromptDirectory::Touch(const std::string& name) const {
  (void)::utimensat(directory_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool PromptDirectory::Remove(const std::string& name) const {
  // ENOENT: another daemon has removed the entry.
  return ::unlinkat(directory_.get(), name.c_str(), 0) == 0 || errno == ENOENT;
}

// ----------------------------------------------------------------------------------------- writing

PromptDirectory::WriteLock::~WriteLock() {
  // The file is removed before the lock ends. Another process that has opened the file then finds
  // that the name no longer refers to this file, and tries again.
  if (file_) (void)::unlinkat(directory_, name_.c_str(), 0);
}

Result<std::optional<PromptDirectory::WriteLock>> PromptDirectory::Lock(
    const std::string& name) const {
  const std::string lock = std::string(kLockPrefix) + name;
  for (;;) {
    UniqueFd file(::openat(directory_.get(), lock.c_str(),
                           O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!file) return FailErrno(lock);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      return FailErrno(lock);
    }
    struct stat held{};
    struct stat named{};
    if (::fstat(file.get(), &held) != 0) return FailErrno(lock);
    // The previous writer may have removed the file between the open and the lock.
    if (::fstatat(directory_.get(), lock.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        named.st_ino != held.st_ino) {
      continue;
    }
    return WriteLock(directory_.get(), lock, std::move(file));
  }
}

void PromptDirectory::RemoveLeftovers() const {
  (void)RemoveStaleTemporaries(directory_.get());
  const Result<std::vector<std::string>> names = NamesIn(directory_.get());
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kLockPrefix)) (void)Lock(name.substr(kLockPrefix.size()));
  }
}

std::optional<std::vector<std::string>> PromptDirectory::TakeChanges() const {
  std::vector<std::string> names;
  alignas(inotify_event) char events[16384];
  bool is_complete = true;
  for (;;) {
    const ssize_t bytes = ::read(changes_.get(), events, sizeof events);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(bytes);) {
      inotify_event event{};
      std::memcpy(&event, events + at, sizeof event);
      if ((event.mask & IN_Q_OVERFLOW) != 0) is_complete = false;
      const char* const text = events + at + sizeof event;
      std::string name(text, ::strnlen(text, event.len));
      if (ParseName(name)) names.push_back(std::move(name));
      at += sizeof event + event.len;
    }
  }
  if (!is_complete) return std::nullopt;
  return names;
}

}  // namespace kvd
