// PeerProgram: reads a fuzz input as a list of operations with operands, from front to back.
// Numbers after the end of the input are 0. A program has at most kOpsMax operations, which bounds
// the time of an input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kvd::test {

class PeerProgram {
 public:
  explicit PeerProgram(std::span<const std::byte> bytes) : bytes_(bytes) {}

  static constexpr unsigned kOpsMax = 128;

  // Reads the next operation, a number below `op_count`; nullopt: the program has ended.
  std::optional<std::uint8_t> Op(unsigned op_count) {
    if (bytes_.empty() || ops_++ == kOpsMax) return std::nullopt;
    return static_cast<std::uint8_t>(Number<std::uint8_t>() % op_count);
  }
  template <class T>
  T Number() {
    T number{};
    const std::size_t byte_count = std::min(sizeof number, bytes_.size());
    std::memcpy(&number, bytes_.data(), byte_count);
    bytes_ = bytes_.subspan(byte_count);
    return number;
  }
  // Takes the next `byte_count_max` bytes, or all remaining bytes if there are fewer.
  std::span<const std::byte> Bytes(std::size_t byte_count_max) {
    const auto taken = bytes_.first(std::min(byte_count_max, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  unsigned ops_ = 0;
};

// Writes a program for a seed. The numbers are added in the order in which the target reads them.
class PeerProgramWriter {
 public:
  template <class T>
  PeerProgramWriter& Number(T number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  template <class T>
  PeerProgramWriter& Value(const T& value) {
    return Number(value);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A segment on the heap, so that AddressSanitizer detects reads and writes outside the segment.
class HeapSegment {
 public:
  explicit HeapSegment(std::size_t byte_count)
      : byte_count_(byte_count),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, byte_count))) {
    Clear();
  }
  std::span<std::byte> bytes() { return {bytes_.get(), byte_count_}; }
  // Clears the first page and all bytes up to the last one that was written since the last Clear().
  void Clear() {
    std::memset(bytes_.get(), 0, written_end_);
    written_end_ = kAlignment;
  }
  // Copies bytes to `offset`. Bytes that would be after the segment's end are omitted.
  void Write(std::size_t offset, std::span<const std::byte> source) {
    if (source.empty() || offset >= byte_count_) return;
    const std::size_t byte_count = std::min(source.size(), byte_count_ - offset);
    std::memcpy(bytes_.get() + offset, source.data(), byte_count);
    WillBeWritten(offset + byte_count);
  }
  // Declares that other code than Write() writes bytes before `end`.
  void WillBeWritten(std::size_t end) { written_end_ = std::max(written_end_, end); }

 private:
  static constexpr std::size_t kAlignment = 4096;  // sizes of segments are multiples of a page
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::size_t byte_count_;
  const std::unique_ptr<std::byte, Free> bytes_;
  std::size_t written_end_ = byte_count_;
};

}  // namespace kvd::test
