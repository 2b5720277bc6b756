// Descriptors over a Unix socket, in one direction only: the daemon sends, the client receives.
//
// The daemon never offers a control buffer to recvmsg (plain recv drops what a client smuggles in),
// so there is no receiving function for it here.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

inline constexpr std::size_t kDescriptorsMax = 8;  // of one message

// Sends all of `bytes` (at least one), the descriptors with the first of them, without blocking.
// Errors: kInvalidArgument (counts), kDisconnected, kBusy (the peer's buffer is full: it read
// nothing of what it asked for; close it), kIo.
Status SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                           std::span<const int> descriptors);

// Receives exactly bytes.size() bytes and whatever descriptors come with them, close-on-exec; all
// of them are closed on an error. `timeout` < 0: for ever. Errors: kDisconnected, kTimeout,
// kCorrupt (more than kDescriptorsMax came, or other control data), kIo.
Result<std::vector<UniqueFd>> ReceiveWithDescriptors(int socket, std::span<std::byte> bytes,
                                                     std::chrono::milliseconds timeout);

}  // namespace kvd
