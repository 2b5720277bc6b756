#include "daemon/process/process_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/unique_fd.h"

namespace kvd {

// Sources: RssAnon, RssFile and RssShmem of /proc/self/status (proc(5)), ru_majflt of getrusage(2),
// the entries of /proc/self/fd and the lines of /proc/self/maps.

namespace {

// Returns the number of kB in the line of `status` that starts with `field` ("RssAnon:"), converted
// to bytes, or 0 if no line starts with `field`.
std::uint64_t StatusBytes(std::string_view status, std::string_view field) {
  const std::size_t at = status.find(field);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(at + field.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  std::uint64_t kilobytes = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), kilobytes);
  return kilobytes * 1024;
}

template <class Consume>
void ReadFile(const char* path, Consume consume) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got <= 0) return;
    consume(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
  }
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  std::string status;
  ReadFile("/proc/self/status", [&](std::string_view part) { status += part; });
  usage.resident_anonymous_bytes = StatusBytes(status, "RssAnon:");
  usage.resident_file_bytes = StatusBytes(status, "RssFile:");
  usage.resident_shared_bytes = StatusBytes(status, "RssShmem:");
  rusage resources{};
  if (::getrusage(RUSAGE_SELF, &resources) == 0) {
    usage.major_faults = static_cast<std::uint64_t>(resources.ru_majflt);
  }
  ReadFile("/proc/self/maps", [&](std::string_view part) {
    usage.mappings += static_cast<std::uint32_t>(std::ranges::count(part, '\n'));
  });
  if (DIR* const directory = ::opendir("/proc/self/fd")) {
    while (const dirent* const entry = ::readdir(directory)) {
      if (entry->d_name[0] != '.') ++usage.descriptors;
    }
    ::closedir(directory);
    // The descriptor of the directory that is being listed does not count.
    if (usage.descriptors > 0) --usage.descriptors;
  }
  return usage;
}

// Formats: proc(5), "meminfo" and "cgroup"; Documentation/admin-guide/cgroup-v2.rst of Linux,
// "memory.max" and "memory.current". A limit of a cgroup also applies to the groups below it, so
// every group from the process's up to the root is read.

namespace {

// The first 16 KiB of a file. Empty if it cannot be read.
std::string ReadText(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
  return got <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(got));
}

// The number at the beginning of the text, after blanks.
std::optional<std::uint64_t> NumberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

// The rest of the line that begins with `start`.
std::optional<std::string_view> LineAfter(std::string_view text, std::string_view start) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(start)) return line.substr(start.size());
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

// Bytes that a cgroup may still use. Empty: it has no limit.
std::optional<std::uint64_t> RoomOf(const std::string& directory) {
  const std::optional<std::uint64_t> most = NumberIn(ReadText(directory + "/memory.max"));
  const std::optional<std::uint64_t> used = NumberIn(ReadText(directory + "/memory.current"));
  if (!most || !used) return std::nullopt;
  return *most - std::min(*most, *used);
}

}  // namespace

std::uint64_t FreeMemoryBytes(const std::string& root) {
  const std::string meminfo = ReadText(root + "/proc/meminfo");
  const auto available = LineAfter(meminfo, "MemAvailable:");
  std::uint64_t bytes = available ? NumberIn(*available).value_or(0) * 1024 : 0;

  // The line of version 2 begins with "0::"; the rest is a path below /sys/fs/cgroup.
  const std::string groups = ReadText(root + "/proc/self/cgroup");
  std::string group(LineAfter(groups, "0::").value_or(""));
  while (true) {
    while (group.ends_with('/')) group.pop_back();
    if (const auto room = RoomOf(Concat(root, "/sys/fs/cgroup", group)))
      bytes = std::min(bytes, *room);
    if (group.empty()) return bytes;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace kvd
