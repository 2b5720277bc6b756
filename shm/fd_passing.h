// Passes descriptors over a Unix socket, in one direction only: the daemon sends, the client
// receives.
//
// The daemon never passes a control buffer to recvmsg, so this header has no receiving function for
// the daemon. The daemon reads with plain recv, which drops any descriptors that a client sends.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

inline constexpr std::size_t kDescriptorsMax = 8;  // largest number of descriptors in one message

// Sends all of `bytes` (at least one) without blocking; the descriptors go with the first byte.
// Errors: kInvalidArgument (counts), kDisconnected, kBusy (the socket buffer is full because the
// peer has read nothing: close the connection), kIo.
Status SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                           std::span<const int> descriptors);

// Receives exactly bytes.size() bytes and all descriptors that come with these bytes; the
// descriptors are close-on-exec. After an error, ReceiveWithDescriptors has closed all received
// descriptors. `timeout` < 0: no limit. Errors: kDisconnected, kTimeout, kCorrupt (more than
// kDescriptorsMax descriptors, or other control data), kIo.
Result<std::vector<UniqueFd>> ReceiveWithDescriptors(int socket, std::span<std::byte> bytes,
                                                     std::chrono::milliseconds timeout);

}  // namespace kvd
