#include "engine/model/weight_reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace kvd {
namespace {

// The bytes of one call. A call holds a lock that calls of mmap of other threads wait for, so the
// portions are short.
constexpr std::uint64_t kPortionBytes = std::uint64_t{8} << 20;
// How far ahead of the present portion pages are requested from the disk.
constexpr std::uint64_t kAheadBytes = 4 * kPortionBytes;

// The kernel changes where the pages are, never their contents.
std::byte* AddressOf(const WeightReader::Range& range) {
  return const_cast<std::byte*>(range.bytes.get());
}

void StartReading(const WeightReader::Range& range, std::uint64_t begin, std::uint64_t bytes) {
  if (begin >= range.byte_count) return;
  (void)::madvise(AddressOf(range) + begin, std::min(bytes, range.byte_count - begin),
                  MADV_WILLNEED);
}

}  // namespace

std::uint64_t WeightReader::byte_count() const {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges_) bytes += range.byte_count;
  return bytes;
}

bool WeightReader::Read(const std::stop_token& stop,
                        const std::function<void(std::uint64_t)>& on_progress) const {
  std::uint64_t bytes_read = 0;
  for (const Range& range : ranges_) {
    StartReading(range, 0, kAheadBytes);
    for (std::uint64_t at = 0; at < range.byte_count; at += kPortionBytes) {
      if (stop.stop_requested()) return false;
      StartReading(range, at + kAheadBytes, kPortionBytes);
      const std::uint64_t bytes = std::min(kPortionBytes, range.byte_count - at);
      // EINVAL: this Linux does not know MADV_POPULATE_READ, and the pages have been requested.
      if (::madvise(AddressOf(range) + at, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
        return false;
      }
      bytes_read += bytes;
      if (on_progress) on_progress(bytes_read);
    }
  }
  return true;
}

}  // namespace kvd
