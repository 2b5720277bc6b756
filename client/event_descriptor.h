// EventDescriptor: one descriptor for an event loop, readable when a connection may have something to
// say: a bell on its socket, news that another thread has taken, or a time to look again.
//
// Owner: a Connection, under its mutex. Level-triggered: readable until it is cleared and no bell
// waits. The number of the descriptor stays the same whatever sockets come and go.
#pragma once

#include <chrono>
#include <memory>

#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

class EventDescriptor {
 public:
  // With news, so that the first wait returns at once. Errors: kIo, kNoSpace (descriptors).
  static Result<std::unique_ptr<EventDescriptor>> Create();

  int descriptor() const { return epoll_.get(); }
  // From now on bells of this socket count, and of no other one; -1: of none. Errors: kIo, kNoSpace.
  Status Watch(int socket);
  void Ring();
  // Readable from that time on, at the latest.
  void LookAt(std::chrono::steady_clock::time_point time);
  // Takes news and times, not bells.
  void Clear();

 private:
  EventDescriptor(UniqueFd epoll, UniqueFd news, UniqueFd timer)
      : epoll_(std::move(epoll)), news_(std::move(news)), timer_(std::move(timer)) {}

  UniqueFd epoll_;
  UniqueFd news_;   // eventfd
  UniqueFd timer_;  // of CLOCK_MONOTONIC
  int socket_ = -1;
};

}  // namespace kvd
