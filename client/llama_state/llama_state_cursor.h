// LlamaStateCursor: reads a llama.cpp state file field by field, checks every length against the
// bytes that are left, and makes the message of a refusal: the field, where it is and at which
// byte.
//
// A value over bytes that outlive it. After a refusal `offset()` is where the refused field starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shm/error.h"

namespace kvd {

// Which of many a field is; what is absent is not said.
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

  // A little-endian number. Errors: kCorrupt, the file ends inside it.
  template <class T>
  Result<T> Number(std::string_view field) {
    if (remaining() < sizeof(T)) return RefuseEnd(field, sizeof(T));
    T value;
    std::memcpy(&value, file_.data() + offset_, sizeof value);
    field_offset_ = offset_;
    offset_ += sizeof value;
    return value;
  }

  // A u32 or u64 that counts things of at least `bytes_each` bytes (> 0) which are still to come.
  // Errors: kCorrupt, also if they do not fit into the rest of the file.
  template <class T>
  Result<T> Count(std::string_view field, std::uint64_t bytes_each) {
    KVD_TRY(T count, Number<T>(field));
    if (std::uint64_t{count} > remaining() / bytes_each) {
      return Refuse(Code::kCorrupt, field,
                    std::to_string(count) + " of at least " + std::to_string(bytes_each) +
                        " bytes each, but " + std::to_string(remaining()) + " bytes are left");
    }
    return count;
  }

  // The offset of count * bytes_each bytes, which are passed over. Errors: kCorrupt.
  Result<std::uint64_t> Skip(std::string_view field, std::uint64_t count,
                             std::uint64_t bytes_each) {
    if (bytes_each != 0 && count > remaining() / bytes_each) {
      return Refuse(Code::kCorrupt, field,
                    std::to_string(count) + " times " + std::to_string(bytes_each) +
                        " bytes, but " + std::to_string(remaining()) + " are left",
                    offset_);
    }
    const std::uint64_t at = offset_;
    offset_ += count * bytes_each;
    return at;
  }

  const std::byte* data_at(std::uint64_t offset) const { return file_.data() + offset; }

  // Refuses the number that was read last.
  std::unexpected<Error> Refuse(Code code, std::string_view field, const std::string& why) {
    return Refuse(code, field, why, field_offset_);
  }
  std::unexpected<Error> Refuse(Code code, std::string_view field, const std::string& why,
                                std::uint64_t at);

 private:
  std::unexpected<Error> RefuseEnd(std::string_view field, std::size_t bytes);

  std::span<const std::byte> file_;
  std::uint64_t offset_ = 0;        // <= file_.size()
  std::uint64_t field_offset_ = 0;  // of the number read last
  LlamaPlace place_;
};

}  // namespace kvd
