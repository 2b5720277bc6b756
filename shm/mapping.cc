// A Mapping uses Boost.Interprocess's mapped_region with a plain descriptor. mapped_region maps
// beyond the end of a file without an error, so the range is checked against fstat first.
// mapped_region reports errors by exceptions, which are caught here.
#include "shm/mapping.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace kvd {
namespace {

namespace bip = boost::interprocess;

// The interface that mapped_region needs.
struct MappableDescriptor {
  int descriptor;
  bip::mapping_handle_t get_mapping_handle() const {
    return bip::ipcdetail::mapping_handle_from_file_handle(descriptor);
  }
};

Result<std::uint64_t> HeldBytes(int descriptor) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return FailErrno("mapping: fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

template <Access access>
struct Mapping<access>::Impl {
  bip::mapped_region region;
};

template <Access access>
Mapping<access>::Mapping() = default;

template <Access access>
Mapping<access>::Mapping(Mapping&& other) noexcept
    : impl_(std::move(other.impl_)),
      data_(std::exchange(other.data_, nullptr)),
      byte_count_(std::exchange(other.byte_count_, 0)) {}

template <Access access>
Mapping<access>& Mapping<access>::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    impl_ = std::move(other.impl_);
    data_ = std::exchange(other.data_, nullptr);
    byte_count_ = std::exchange(other.byte_count_, 0);
  }
  return *this;
}

template <Access access>
Mapping<access>::~Mapping() = default;

template <Access access>
Result<Mapping<access>> Mapping<access>::MapAll(int descriptor) {
  KVD_TRY(const std::uint64_t held_bytes, HeldBytes(descriptor));
  return MapRange(descriptor, 0, held_bytes);
}

template <Access access>
Result<Mapping<access>> Mapping<access>::MapRange(int descriptor, std::uint64_t offset,
                                                  std::size_t mapped_bytes) {
  if (mapped_bytes == 0) return Fail(Code::kInvalidArgument, "mapping: 0 bytes");
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (offset % page_bytes != 0) {
    return Fail(Code::kInvalidArgument, "mapping: offset ", offset,
                " is not a multiple of the page, ", page_bytes);
  }
  KVD_TRY(const std::uint64_t held_bytes, HeldBytes(descriptor));
  if (offset > held_bytes || mapped_bytes > held_bytes - offset) {
    return Fail(Code::kInvalidArgument, "mapping: bytes ", offset, " + ", mapped_bytes, " of ",
                held_bytes);
  }
  Mapping mapping;
  try {
    mapping.impl_ = std::make_unique<Impl>();
    mapping.impl_->region = bip::mapped_region(
        MappableDescriptor{descriptor}, access == kReadOnly ? bip::read_only : bip::read_write,
        static_cast<bip::offset_t>(offset), mapped_bytes);
  } catch (const bip::interprocess_exception& error) {
    return Fail(Code::kIo, "mapping: ", error.what());
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "mapping: out of memory");
  }
  mapping.data_ = static_cast<Byte*>(mapping.impl_->region.get_address());
  mapping.byte_count_ = mapped_bytes;
  return mapping;
}

template class Mapping<kReadOnly>;
template class Mapping<kReadWrite>;

}  // namespace kvd
