// Doorbells: single bytes on the connection's own socket that say "look at the rings".
//
// A byte means nothing but that (but for a goodbye); several may be drained as one, and a spare one costs a look. The
// protocol that decides when one is owed is in shm/README.md, rules 11 to 13. Never a shared
// eventfd: its status flags would be the client's to change.
#pragma once

#include <chrono>

#include "shm/error.h"

namespace kvd {

// One byte, never blocking, never SIGPIPE. A full buffer is fine: bytes wait there already. Errors:
// kDisconnected, kIo.
Status RingDoorbell(int socket);

// The last byte of a client that goes for good; else as RingDoorbell.
Status SayGoodbye(int socket);

// Takes what bells are there, without blocking and without a control buffer. Errors: kDisconnected
// (the peer has hung up and every bell was taken), kIo.
Status DrainDoorbell(int socket);

// Sleeps until a bell comes, the peer hangs up, or `timeout` passes (negative: for ever), and takes
// the bells. False: the time passed. Errors: kDisconnected, kIo. For clients: needs a blocking
// socket.
Result<bool> WaitDoorbell(int socket, std::chrono::nanoseconds timeout);

}  // namespace kvd
