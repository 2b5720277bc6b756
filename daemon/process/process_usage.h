// The memory, descriptors and mappings that the daemon's process uses, and the memory that it can
// still fill.
#pragma once

#include <cstdint>
#include <string>

namespace kvd {

// ProcessUsage: the memory, descriptors and mappings of the daemon's process, read from /proc/self.
// Because the daemon sets PR_SET_DUMPABLE to 0, other processes of the same uid cannot read the
// daemon's files in /proc.
//
// ReadProcessUsage may be called from any thread. A call takes about 100 µs, because mappings are
// counted line by line.
struct ProcessUsage {
  std::uint64_t resident_anonymous_bytes = 0;
  std::uint64_t resident_shared_bytes = 0;  // shared memory: pool, rings and arenas
  std::uint64_t resident_file_bytes = 0;    // mapped files: the weights and the daemon's own code
  // Page faults since the start that waited for a disk. Weights that do not fit into memory cause
  // them.
  std::uint64_t major_faults = 0;
  std::uint32_t descriptors = 0;
  std::uint32_t mappings = 0;
};

// Reads the present usage. Members whose values /proc does not contain are 0.
ProcessUsage ReadProcessUsage();

// FreeMemoryBytes: how many bytes of memory this process can fill before the system or one of its
// cgroups (version 2) must take memory back.
//
// Any thread. A call reads a few small files of /proc and /sys.

// The least of MemAvailable (/proc/meminfo) and, for the process's cgroup and each of its parents,
// memory.max minus memory.current. A cgroup without these files or with the limit "max" has no
// limit. Returns 0 if MemAvailable cannot be read. `root` is put before every path; tests set it.
std::uint64_t FreeMemoryBytes(const std::string& root = "");

}  // namespace kvd
