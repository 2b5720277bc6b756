// Reading and writing the bytes of a payload in order (shm/payload_codec.cc).
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "base/check.h"

namespace kvd::wire {

// Reads a payload front to back. REQUIRES of Take, TakeSpan and TakeText: Left() is large enough.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t Left() const { return bytes_.size(); }
  std::span<const std::byte> TakeSpan(std::size_t byte_count) {
    KVD_ASSERT(byte_count <= bytes_.size());
    const auto taken = bytes_.first(byte_count);
    bytes_ = bytes_.subspan(byte_count);
    return taken;
  }
  template <class T>
  T Take() {
    T value;
    std::memcpy(&value, TakeSpan(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view TakeText(std::size_t byte_count) {
    const auto taken = TakeSpan(byte_count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

// Writes a payload front to back. The destructor checks that it is complete.
class PayloadWriter {
 public:
  explicit PayloadWriter(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~PayloadWriter() { KVD_ASSERT(bytes_.empty()); }
  PayloadWriter(const PayloadWriter&) = delete;
  PayloadWriter& operator=(const PayloadWriter&) = delete;
  void Put(const void* source, std::size_t byte_count) {
    KVD_ASSERT(byte_count <= bytes_.size());
    if (byte_count != 0) std::memcpy(bytes_.data(), source, byte_count);
    bytes_ = bytes_.subspan(byte_count);
  }
  template <class T>
  void PutValue(const T& value) {
    Put(&value, sizeof value);
  }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace kvd::wire
