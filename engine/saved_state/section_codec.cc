#include "engine/saved_state/section_codec.h"

#include <lz4.h>

#include <string>

#include "base/check.h"
#include "engine/saved_state/byte_planes.h"

namespace kvd {

static_assert(state_file::kSectionBytesMax <= LZ4_MAX_INPUT_SIZE);

SectionCodec::Packed SectionCodec::Pack(std::span<const std::byte> raw, std::size_t element_bytes) {
  KVD_ASSERT(!raw.empty() && raw.size() <= state_file::kSectionBytesMax);
  planes_.resize(raw.size());
  SplitPlanes(raw.data(), planes_.data(), raw.size(), element_bytes);
  // The output buffer is as large as the input, because a larger result is not used.
  bytes_.resize(raw.size());
  const int packed = LZ4_compress_default(
      reinterpret_cast<const char*>(planes_.data()), reinterpret_cast<char*>(bytes_.data()),
      static_cast<int>(raw.size()), static_cast<int>(raw.size()) - 1);
  if (packed <= 0) return {.bytes = raw};
  return {.packing = state_file::Packing::kPlanesLz4,
          .bytes = std::span(bytes_).first(static_cast<std::size_t>(packed))};
}

Result<std::span<const std::byte>> SectionCodec::Unpack(std::span<const std::byte> packed,
                                                        std::size_t raw_bytes,
                                                        std::size_t element_bytes) {
  KVD_ASSERT(raw_bytes != 0 && raw_bytes <= state_file::kSectionBytesMax &&
             packed.size() <= state_file::kSectionBytesMax);
  planes_.resize(raw_bytes);
  bytes_.resize(raw_bytes);
  const int unpacked = LZ4_decompress_safe(
      reinterpret_cast<const char*>(packed.data()), reinterpret_cast<char*>(planes_.data()),
      static_cast<int>(packed.size()), static_cast<int>(raw_bytes));
  if (unpacked < 0 || static_cast<std::size_t>(unpacked) != raw_bytes) {
    return Fail(Code::kCorrupt, "not an LZ4 block of ", raw_bytes, " bytes");
  }
  JoinPlanes(planes_.data(), bytes_.data(), raw_bytes, element_bytes);
  return std::span<const std::byte>(bytes_);
}

}  // namespace kvd
