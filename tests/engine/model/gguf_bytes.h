// GgufBytes: builds the bytes of a GGUF file field by field, so that tests can set any field to any
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/model/gguf_file.h"

namespace kvd {

class GgufBytes {
 public:
  // Starts a file with the magic, version 3 and the two counts.
  static GgufBytes WithHeader(std::uint64_t tensor_count, std::uint64_t entry_count) {
    GgufBytes bytes;
    return bytes.Raw("GGUF").U32(3).U64(tensor_count).U64(entry_count);
  }

  GgufBytes& Raw(std::string_view text) {
    for (char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  template <class T>
  GgufBytes& Number(T number) {
    const auto* begin = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), begin, begin + sizeof number);
    return *this;
  }
  GgufBytes& U8(std::uint8_t number) { return Number(number); }
  GgufBytes& U32(std::uint32_t number) { return Number(number); }
  GgufBytes& U64(std::uint64_t number) { return Number(number); }
  GgufBytes& String(std::string_view text) { return U64(text.size()).Raw(text); }
  GgufBytes& Key(std::string_view key, GgufType type) {
    return String(key).U32(static_cast<std::uint32_t>(type));
  }
  GgufBytes& Tensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                    std::uint32_t type, std::uint64_t offset) {
    String(name).U32(static_cast<std::uint32_t>(dims.size()));
    for (std::uint64_t dim : dims) U64(dim);
    return U32(type).U64(offset);
  }
  // Appends zeros up to a multiple of 32 bytes, and then a data section of `data_bytes` zeros.
  GgufBytes& Data(std::size_t data_bytes) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + data_bytes);
    return *this;
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  Result<GgufFile> Parse() const { return GgufFile::FromBytes(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace kvd
