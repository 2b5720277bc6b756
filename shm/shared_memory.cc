#include "shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace kvd {

// A Mapping uses Boost.Interprocess's mapped_region with a plain descriptor. mapped_region maps
// beyond the end of a file without an error, so the range is checked against fstat first.
// mapped_region reports errors by exceptions, which are caught here.

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

// CreateSealedMemory first sets the memfd's size and mode and makes the writable mapping; then one
// call adds all seals, including F_SEAL_SEAL. The descriptor is sent only after the sealing, so a
// client never receives an unsealed descriptor.

namespace {

// The flag MFD_NOEXEC_SEAL of Linux 6.3, which glibc 2.36 does not define.
constexpr unsigned kMemfdNoExecSeal = 0x0008u;

int SealsOf(Sealing sealing) {
  const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return sealing == Sealing::kSize ? size_seals : size_seals | F_SEAL_FUTURE_WRITE;
}

std::string Hex(int seals) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto bits = static_cast<unsigned>(seals);
  return {'0', 'x', kDigits[(bits >> 4) & 15], kDigits[bits & 15]};
}

}  // namespace

Result<CreatedMemory> CreateSealedMemory(std::string_view name, std::size_t segment_bytes,
                                         Sealing sealing) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (segment_bytes == 0 || segment_bytes % page_bytes != 0) {
    return Fail(Code::kInvalidArgument, "segment_bytes: ", segment_bytes,
                ", not a positive multiple of the page size, ", page_bytes);
  }
  const std::string terminated_name(name);
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd descriptor(::memfd_create(terminated_name.c_str(), flags | kMemfdNoExecSeal));
  if (!descriptor && errno == EINVAL) {
    descriptor.reset(::memfd_create(terminated_name.c_str(), flags));
  }
  if (!descriptor) return FailErrno("memfd_create");
  if (::fchmod(descriptor.get(), 0600) != 0) return FailErrno("memfd: fchmod");
  if (::ftruncate(descriptor.get(), static_cast<off_t>(segment_bytes)) != 0) {
    return FailErrno("memfd: ftruncate");
  }
  KVD_TRY(auto mapping, Mapping<kReadWrite>::MapRange(descriptor.get(), 0, segment_bytes));
  if (::fcntl(descriptor.get(), F_ADD_SEALS, SealsOf(sealing)) != 0) {
    return FailErrno("memfd: F_ADD_SEALS");
  }
  return CreatedMemory{std::move(descriptor), std::move(mapping)};
}

Status CheckSealedMemory(int descriptor, Sealing sealing, std::size_t segment_bytes) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 && errno == EINVAL) {
    return Fail(Code::kCorrupt, "received segment: not a memfd, so it cannot be sealed");
  }
  if (seals < 0) return FailErrno("received segment: F_GET_SEALS");
  const int wanted = SealsOf(sealing);
  if ((seals & wanted) != wanted) {
    return Fail(Code::kCorrupt, "received segment: seals ", Hex(seals), ", ", Hex(wanted),
                " wanted");
  }
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return FailErrno("received segment: fstat");
  if (static_cast<std::uint64_t>(status.st_size) != segment_bytes) {
    return Fail(Code::kCorrupt, "received segment: ", status.st_size, " bytes, ", segment_bytes,
                " wanted");
  }
  return {};
}

}  // namespace kvd
