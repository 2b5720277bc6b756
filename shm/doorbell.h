// Doorbells: single bytes on the connection's own socket that wake a sleeping peer.
//
// A doorbell byte means "check the rings"; the only other byte on the socket is a client's goodbye.
// Several doorbell bytes may be drained at once, and a superfluous byte costs one check of the
// rings. shm/README.md, rules 11 to 13, says when a doorbell is due. Doorbells do not use an
// eventfd, because the client could change the eventfd's status flags.
#pragma once

#include <chrono>

#include "base/error.h"

namespace kvd {

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

}  // namespace kvd
