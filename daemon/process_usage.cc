// Sources: RssAnon, RssFile and RssShmem of /proc/self/status (proc(5)), ru_majflt of getrusage(2),
// the entries of /proc/self/fd and the lines of /proc/self/maps.
#include "daemon/process_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace kvd {
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

}  // namespace kvd
