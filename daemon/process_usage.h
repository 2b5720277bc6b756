// What the daemon's process holds, read from /proc/self: with PR_SET_DUMPABLE 0 nobody else can
// read it.
//
// Pure query, any thread, some 100 µs (mappings are counted line by line).
#pragma once

#include <cstdint>

namespace kvd {

struct ProcessUsage {
  std::uint64_t resident_anonymous_bytes = 0;
  std::uint64_t resident_shared_bytes = 0;  // shared memory: pool, rings and arenas
  std::uint64_t resident_file_bytes = 0;    // mapped files: the weights and our own code
  std::uint32_t descriptors = 0;
  std::uint32_t mappings = 0;
};

// Fields that /proc does not give are 0.
ProcessUsage ReadProcessUsage();

}  // namespace kvd
