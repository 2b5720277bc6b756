// What two processes send each other over their Unix socket besides messages: doorbells,
// descriptors and, from the kernel, credentials.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// Doorbells: single bytes on the connection's own socket that wake a sleeping peer.
//
// A doorbell byte means "check the rings"; the only other byte on the socket is a client's goodbye.
// Several doorbell bytes may be drained at once, and a superfluous byte costs one check of the
// rings. shm/README.md, rules 11 to 13, says when a doorbell is due. Doorbells do not use an
// eventfd, because the client could change the eventfd's status flags.

// Sends one doorbell byte without blocking and without SIGPIPE. A full socket buffer is success,
// because bytes already wait there. Errors: kDisconnected, kIo.
Status RingDoorbell(int socket);

// Sends the goodbye byte, the last byte of a client that will not reconnect. Blocking and errors:
// as for RingDoorbell.
Status SayGoodbye(int socket);

// Reads and discards the doorbells that have arrived, without blocking and without a control
// buffer. Errors: kDisconnected (the peer has closed the connection and no doorbell is left), kIo.
Status DrainDoorbell(int socket);

// WaitDoorbell is for clients, which have a blocking socket. WaitDoorbell sleeps until a doorbell
// arrives, the peer closes the connection, or `timeout` has passed (negative: no limit), and drains
// the doorbells. With a timeout, a signal also ends the wait. Returns false if the timeout has
// passed. Errors: kDisconnected, kIo.
Result<bool> WaitDoorbell(int socket, std::chrono::nanoseconds timeout);

// Passes descriptors over a Unix socket, in one direction only: the daemon sends, the client
// receives.
//
// The daemon never passes a control buffer to recvmsg, so this header has no receiving function for
// the daemon. The daemon reads with plain recv, which drops any descriptors that a client sends.

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

// The identity of the process at the other end of a Unix socket, as the kernel recorded it when the
// peer connected.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// Reads the socket option SO_PEERCRED. The pid may be shown, but permissions must depend on the uid
// only, because the kernel may reuse the pid for another process. Errors: kIo.
Result<PeerCredentials> ReadPeerCredentials(int socket);

}  // namespace kvd
