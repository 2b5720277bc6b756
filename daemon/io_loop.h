// IoLoop: what the daemon's io side asks of an event loop: descriptors that become readable, timers,
// and calls posted by other threads.
//
// WatchReadable, After and the callbacks belong to the one thread that runs the loop; Post may be
// called from any thread. Posted calls are made in the order in which one thread posts them; timers
// and descriptors have no order between them. Callbacks do not throw. AsioLoop is the daemon's loop;
// tests have one with virtual time (SimulatedLoop).
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace kvd {

class IoLoop {
 public:
  // A watch or a timer; its callback is never entered again once it is destroyed, be it from within
  // that callback.
  class Handle {
   public:
    virtual ~Handle() = default;
  };

  IoLoop() = default;
  virtual ~IoLoop() = default;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Calls `ready` whenever the descriptor is readable (or hung up), again as long as it stays so.
  // The descriptor remains the caller's and must outlive the handle.
  [[nodiscard]] virtual std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                              std::function<void()> ready) = 0;
  // Calls `due` once.
  [[nodiscard]] virtual std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                                      std::function<void()> due) = 0;
  virtual void Post(std::function<void()> call) = 0;
};

}  // namespace kvd
