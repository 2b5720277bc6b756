// The two segments of a client in heap memory, which both ends of the channel use in one process,
// so that sanitizers check the accesses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "shm/channel_geometry.h"
#include "shm/segment_layout.h"

namespace kvd {

class SharedSegments {
 public:
  explicit SharedSegments(const ChannelGeometry& geometry)
      : geometry_(geometry),
        requests_(geometry.request_segment_bytes()),
        results_(geometry.result_segment_bytes()) {
    new (requests_.data()) layout::RequestsHeader{};
    new (results_.data()) layout::ResultsHeader{};
  }

  const ChannelGeometry& geometry() const { return geometry_; }
  std::span<std::byte> requests() { return requests_.bytes(); }
  std::span<std::byte> results() { return results_.bytes(); }
  layout::RequestsHeader& requests_header() {
    return *reinterpret_cast<layout::RequestsHeader*>(requests_.data());
  }
  layout::ResultsHeader& results_header() {
    return *reinterpret_cast<layout::ResultsHeader*>(results_.data());
  }

 private:
  class AlignedBytes {
   public:
    explicit AlignedBytes(std::size_t byte_count)
        : byte_count_(byte_count),
          data_(static_cast<std::byte*>(::operator new(byte_count, std::align_val_t{4096}))) {
      std::fill_n(data_.get(), byte_count, std::byte{0});
    }
    std::byte* data() { return data_.get(); }
    std::span<std::byte> bytes() { return {data_.get(), byte_count_}; }

   private:
    struct Free {
      void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t{4096}); }
    };
    std::size_t byte_count_;
    std::unique_ptr<std::byte, Free> data_;
  };

  ChannelGeometry geometry_;
  AlignedBytes requests_;
  AlignedBytes results_;
};

inline ChannelGeometry SmallGeometry() { return {8, 16, 65536, 65536}; }

}  // namespace kvd
