// SectionCodec: packs the bytes of one section and unpacks them again. The one place that knows lz4.
//
// Keeps its buffers; one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "state_form/state_layout.h"

namespace kvd {

class SectionCodec {
 public:
  struct Packed {
    state_file::Packing packing = state_file::Packing::kNone;
    std::span<const std::byte> bytes;  // `raw` itself where packing does not pay
  };
  // element_bytes: 1 to kPlaneElementBytesMax. The bytes are valid until the next call. REQUIRES:
  // raw.size() is 1 to kSectionBytesMax.
  Packed Pack(std::span<const std::byte> raw, std::size_t element_bytes);
  // Into raw_bytes bytes, valid until the next call. Errors: kCorrupt (they are not raw_bytes, or no
  // LZ4 block). REQUIRES: raw_bytes and element_bytes as for Pack.
  Result<std::span<const std::byte>> Unpack(std::span<const std::byte> packed,
                                            std::size_t raw_bytes, std::size_t element_bytes);

 private:
  std::vector<std::byte> planes_;
  std::vector<std::byte> bytes_;
};

}  // namespace kvd
