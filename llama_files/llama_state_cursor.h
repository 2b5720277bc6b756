// LlamaStateCursor: reads a llama.cpp state file field by field, checks every length against the
// number of remaining bytes, and creates error messages that name the field, its place and its byte
// offset.
//
// A LlamaStateCursor is a view of bytes that outlive the cursor. After an error, `offset()` is the
// offset of the field that could not be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {

// The place of a field, which distinguishes fields of the same name in messages; absent numbers are
// left out of messages.
struct LlamaPlace {
  std::optional<std::uint32_t> cache;
  std::optional<std::uint32_t> stream;
  std::optional<std::uint32_t> cell;
  std::optional<std::uint32_t> layer;
};

class LlamaStateCursor {
 public:
  explicit LlamaStateCursor(std::span<const std::byte> file, std::uint64_t offset = 0)
      : file_(file), offset_(offset) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return file_.size() - offset_; }
  LlamaPlace& place() { return place_; }

  // Reads a little-endian number. Errors: kCorrupt (the file ends inside the number).
  template <class T>
  Result<T> Number(std::string_view field) {
    if (remaining() < sizeof(T)) return RefuseEnd(field, sizeof(T));
    T value;
    std::memcpy(&value, file_.data() + offset_, sizeof value);
    field_offset_ = offset_;
    offset_ += sizeof value;
    return value;
  }

  // Reads a u32 or u64 that counts items of at least `bytes_each` bytes (> 0) which follow in the
  // file. Errors: kCorrupt, also if the items do not fit into the remaining bytes.
  template <class T>
  Result<T> Count(std::string_view field, std::uint64_t bytes_each) {
    KVD_TRY(T count, Number<T>(field));
    if (std::uint64_t{count} > remaining() / bytes_each) {
      return Refuse(Code::kCorrupt, field,
                    Concat(count, " of at least ", bytes_each, " bytes each, but ", remaining(),
                           " bytes are left"));
    }
    return count;
  }

  // Skips count * bytes_each bytes and returns their offset. Errors: kCorrupt.
  Result<std::uint64_t> Skip(std::string_view field, std::uint64_t count,
                             std::uint64_t bytes_each) {
    if (bytes_each != 0 && count > remaining() / bytes_each) {
      return Refuse(Code::kCorrupt, field,
                    Concat(count, " times ", bytes_each, " bytes, but ", remaining(), " are left"),
                    offset_);
    }
    const std::uint64_t at = offset_;
    offset_ += count * bytes_each;
    return at;
  }

  const std::byte* data_at(std::uint64_t offset) const { return file_.data() + offset; }

  // Returns an error about the last number that was read.
  std::unexpected<Error> Refuse(Code code, std::string_view field, const std::string& why) {
    return Refuse(code, field, why, field_offset_);
  }
  std::unexpected<Error> Refuse(Code code, std::string_view field, const std::string& why,
                                std::uint64_t at);

 private:
  std::unexpected<Error> RefuseEnd(std::string_view field, std::size_t bytes);

  std::span<const std::byte> file_;
  std::uint64_t offset_ = 0;        // <= file_.size()
  std::uint64_t field_offset_ = 0;  // offset of the last number that was read
  LlamaPlace place_;
};

}  // namespace kvd
