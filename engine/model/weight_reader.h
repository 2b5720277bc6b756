// WeightReader reads the mapped bytes of a model's files into memory.
//
// A reader holds the mappings, which end when the last reader and the GgufFile are destroyed. A
// reader is immutable; any thread may copy and use it, also while other threads use the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

namespace kvd {

class WeightReader {
 public:
  // A mapping that begins at a page.
  struct Range {
    std::shared_ptr<const std::byte> bytes;
    std::uint64_t byte_count = 0;
  };

  explicit WeightReader(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  std::uint64_t byte_count() const;

  // Loads all bytes into memory and into this process's page tables, some MiB at a time until
  // `stop` is requested, so that steps do not wait for single page faults. The next pages are
  // requested from the disk before the present ones have arrived. After each portion Read calls
  // `on_progress` with the number of bytes read so far. Returns whether all bytes were read. Linux
  // before 5.14: starts to read the pages, and does not wait for them.
  bool Read(const std::stop_token& stop,
            const std::function<void(std::uint64_t bytes_read)>& on_progress = {}) const;

 private:
  std::vector<Range> ranges_;
};

}  // namespace kvd
