// CreateSealedMemory first sets the memfd's size and mode and makes the writable mapping; then one
// call adds all seals, including F_SEAL_SEAL. The descriptor is sent only after the sealing, so a
// client never receives an unsealed descriptor.
#include "shm/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kvd {
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
