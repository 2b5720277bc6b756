// Order matters: size, mode and the writable mapping first, then all seals in one call with SEAL
// among them, so that there is no moment at which a client could have the descriptor unsealed.
#include "shm/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kvd {
namespace {

// Linux 6.3; glibc 2.36 has no name for it.
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
    return Fail(Code::kInvalidArgument, "segment_bytes: " + std::to_string(segment_bytes) +
                                            " is no positive multiple of the page, " +
                                            std::to_string(page_bytes));
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
    return Fail(Code::kCorrupt, "received segment: not a memfd, it cannot be sealed");
  }
  if (seals < 0) return FailErrno("received segment: F_GET_SEALS");
  const int wanted = SealsOf(sealing);
  if ((seals & wanted) != wanted) {
    return Fail(Code::kCorrupt,
                "received segment: seals " + Hex(seals) + ", " + Hex(wanted) + " wanted");
  }
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return FailErrno("received segment: fstat");
  if (static_cast<std::uint64_t>(status.st_size) != segment_bytes) {
    return Fail(Code::kCorrupt, "received segment: " + std::to_string(status.st_size) + " bytes, " +
                                    std::to_string(segment_bytes) + " wanted");
  }
  return {};
}

}  // namespace kvd
