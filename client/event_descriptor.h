// EventDescriptor: one descriptor for an event loop. The descriptor is readable when a request of
// the connection may have an answer to take: after a doorbell on the socket, after another thread
// has called Ring, or at a set time.
//
// Owner: a Connection, whose mutex guards the EventDescriptor. The descriptor is level-triggered:
// it stays readable until Clear is called and the socket holds no doorbell. The number of the
// EventDescriptor's descriptor stays the same when the socket is replaced.
#pragma once

#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

class EventDescriptor {
 public:
  // A new EventDescriptor is readable, so that the first wait of an event loop returns at once.
  // Errors: kIo, kNoSpace (descriptors).
  static Result<std::unique_ptr<EventDescriptor>> Create();

  int descriptor() const { return epoll_.get(); }
  // Watches `socket` for doorbells instead of the socket watched before; -1: watches no socket.
  // Errors: kIo, kNoSpace.
  Status Watch(int socket);
  void Ring();
  // Makes the descriptor readable at `time` at the latest.
  void LookAt(std::chrono::steady_clock::time_point time);
  // Clears the effects of Ring and LookAt; Clear reads no doorbell byte from the socket.
  void Clear();

 private:
  EventDescriptor(UniqueFd epoll, UniqueFd news, UniqueFd timer)
      : epoll_(std::move(epoll)), news_(std::move(news)), timer_(std::move(timer)) {}

  UniqueFd epoll_;
  UniqueFd news_;   // an eventfd to which Ring writes
  UniqueFd timer_;  // a timerfd of CLOCK_MONOTONIC, which LookAt sets
  int socket_ = -1;
};

}  // namespace kvd
