// SealedMemory: a memfd of fixed size that is sealed before another process receives it. Clients
// map the memory that SealedMemory creates.
//
// Owner: the daemon, which creates two segments per client. The kernel frees the pages when the
// last descriptor and mapping are closed. The seals prevent a client from truncating the segment,
// which would raise SIGBUS in the daemon, and from writing memory that it may only read. File modes
// prevent neither truncation nor writing (shm/README.md, rule 3). If adding a seal fails,
// CreateSealedMemory returns an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/mapping.h"

namespace kvd {

enum class Sealing : std::uint8_t {
  kSize,  // the seals F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL: the size is fixed
  // The seals of kSize and F_SEAL_FUTURE_WRITE: only mappings made before the sealing can write.
  kSizeAndLaterWrites
};

// A new memfd: the descriptor to send, and the mapping made before the sealing. With
// kSizeAndLaterWrites, the mapping in a CreatedMemory stays the only writable mapping of the memfd.
struct CreatedMemory {
  UniqueFd descriptor;
  Mapping<kReadWrite> mapping;
};

// Creates a zeroed memfd of `segment_bytes` (a positive multiple of the page size), mode 0600,
// close-on-exec, and not executable if the kernel supports that flag. `name` appears in
// /proc/PID/maps. Errors: kInvalidArgument (size), kIo (the system's text).
Result<CreatedMemory> CreateSealedMemory(std::string_view name, std::size_t segment_bytes,
                                         Sealing sealing);

// Checks a received descriptor before it is mapped: it must be a memfd that has at least the seals
// of `sealing` and holds exactly `segment_bytes`. Errors: kCorrupt, naming the seals or sizes found
// and wanted; kIo.
Status CheckSealedMemory(int descriptor, Sealing sealing, std::size_t segment_bytes);

}  // namespace kvd
