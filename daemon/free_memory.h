// FreeMemoryBytes: how many bytes of memory this process can fill before the system or one of its
// cgroups (version 2) must take memory back.
//
// Any thread. A call reads a few small files of /proc and /sys.
#pragma once

#include <cstdint>
#include <string>

namespace kvd {

// The least of MemAvailable (/proc/meminfo) and, for the process's cgroup and each of its parents,
// memory.max minus memory.current. A cgroup without these files or with the limit "max" has no
// limit. Returns 0 if MemAvailable cannot be read. `root` is put before every path; tests set it.
std::uint64_t FreeMemoryBytes(const std::string& root = "");

}  // namespace kvd
