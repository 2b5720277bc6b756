// SealedMemory: a memfd of fixed size, sealed before anybody else sees it: what clients map.
//
// Owner: the daemon, one pair per client; pages go when the last descriptor and mapping go. Sealing
// is what keeps a client from truncating the daemon into a SIGBUS, and from writing what it may
// only read (file modes stop neither: see shm/README.md). A seal that fails is an error, never a
// warning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shm/error.h"
#include "shm/mapping.h"
#include "shm/unique_fd.h"

namespace kvd {

enum class Sealing : std::uint8_t {
  kSize,               // SHRINK | GROW | SEAL: nobody resizes it
  kSizeAndLaterWrites  // the same and FUTURE_WRITE: only mappings made before the sealing can write
};

// What CreateSealedMemory returns: the descriptor to send, and the mapping made before the sealing,
// the only writable one there will ever be where sealing is kSizeAndLaterWrites.
struct CreatedMemory {
  UniqueFd descriptor;
  Mapping<kReadWrite> mapping;
};

// A zeroed memfd of `segment_bytes` (a positive multiple of the page), mode 0600, close-on-exec,
// not executable where the kernel knows that flag. `name` shows in /proc/PID/maps. Errors:
// kInvalidArgument (size), kIo (the system's text).
Result<CreatedMemory> CreateSealedMemory(std::string_view name, std::size_t segment_bytes,
                                         Sealing sealing);

// A received descriptor is what its sender promised: a memfd that carries at least the seals of
// `sealing` and holds exactly `segment_bytes`. To be called before mapping it. Errors: kCorrupt,
// naming the seals or sizes found and wanted; kIo.
Status CheckSealedMemory(int descriptor, Sealing sealing, std::size_t segment_bytes);

}  // namespace kvd
