#include "engine/saved_state/section_codec.h"

#include <lz4.h>
#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "state_layout/state_layout.h"

namespace kvd {

// ---- byte planes
// The compiler vectorizes the loops for elements of two and four bytes. The loops for 34 and 18
// bytes are for blocks of q8_0 and q4_0.

namespace {

template <std::size_t kBytes>
void SplitFixed(const std::byte* source, std::byte* destination, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) destination[k * count + i] = source[i * kBytes + k];
  }
}

template <std::size_t kBytes>
void JoinFixed(const std::byte* source, std::byte* destination, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) destination[i * kBytes + k] = source[k * count + i];
  }
}

}  // namespace

void SplitPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                 std::size_t element_bytes) {
  KVD_ASSERT(element_bytes >= 1 && element_bytes <= state_file::kPlaneElementBytesMax);
  const std::size_t count = byte_count / element_bytes;
  switch (element_bytes) {
    case 1: std::memcpy(destination, source, count); break;
    case 2: SplitFixed<2>(source, destination, count); break;
    case 4: SplitFixed<4>(source, destination, count); break;
    case 18: SplitFixed<18>(source, destination, count); break;
    case 34: SplitFixed<34>(source, destination, count); break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < element_bytes; ++k) {
          destination[k * count + i] = source[i * element_bytes + k];
        }
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(source + whole, source + byte_count, destination + whole);
}

void JoinPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                std::size_t element_bytes) {
  KVD_ASSERT(element_bytes >= 1 && element_bytes <= state_file::kPlaneElementBytesMax);
  const std::size_t count = byte_count / element_bytes;
  switch (element_bytes) {
    case 1: std::memcpy(destination, source, count); break;
    case 2: JoinFixed<2>(source, destination, count); break;
    case 4: JoinFixed<4>(source, destination, count); break;
    case 18: JoinFixed<18>(source, destination, count); break;
    case 34: JoinFixed<34>(source, destination, count); break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < element_bytes; ++k) {
          destination[i * element_bytes + k] = source[k * count + i];
        }
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(source + whole, source + byte_count, destination + whole);
}

// ---- section codec
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
