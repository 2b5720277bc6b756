// PeerProgram: a fuzz input as a list of operations with operands, read front to back. Behind its
// end every number is 0. Only so many operations are done that an input takes no longer than it
// needs to come anywhere.
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

  // The next operation below `op_count`; nullopt: the program is over.
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
  // Up to that many of the next bytes.
  std::span<const std::byte> Bytes(std::size_t byte_count_max) {
    const auto taken = bytes_.first(std::min(byte_count_max, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  unsigned ops_ = 0;
};

// The same for a maker of seeds, to be written in the order in which the target reads.
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

// A segment on the heap, where AddressSanitizer sees what is read or written outside it.
class HeapSegment {
 public:
  explicit HeapSegment(std::size_t byte_count)
      : byte_count_(byte_count),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, byte_count))) {
    Clear();
  }
  std::span<std::byte> bytes() { return {bytes_.get(), byte_count_}; }
  // Zeros up to the last byte that was written since the last time, and at least in the first page.
  void Clear() {
    std::memset(bytes_.get(), 0, written_end_);
    written_end_ = kAlignment;
  }
  // Bytes at any place; those that would lie behind the end are left out.
  void Write(std::size_t offset, std::span<const std::byte> source) {
    if (source.empty() || offset >= byte_count_) return;
    const std::size_t byte_count = std::min(source.size(), byte_count_ - offset);
    std::memcpy(bytes_.get() + offset, source.data(), byte_count);
    WillBeWritten(offset + byte_count);
  }
  // By others than Write, up to there.
  void WillBeWritten(std::size_t end) { written_end_ = std::max(written_end_, end); }

 private:
  static constexpr std::size_t kAlignment = 4096;  // of which segments' sizes are multiples
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::size_t byte_count_;
  const std::unique_ptr<std::byte, Free> bytes_;
  std::size_t written_end_ = byte_count_;
};

}  // namespace kvd::test
