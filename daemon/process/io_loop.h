// Event loops: the interface IoLoop, and AsioLoop, with which the daemon's threads implement it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace kvd {

// IoLoop: the interface to an event loop: descriptors that become readable, timers, and calls
// posted by other threads.
//
// WatchReadable, After and the callbacks belong to the one thread that runs the loop; Post may be
// called from any thread. Calls posted by one thread run in the order in which they are posted. The
// order of callbacks of timers and descriptors is not defined. Callbacks do not throw. AsioLoop is
// the daemon's implementation of IoLoop; tests use SimulatedLoop, an implementation with virtual
// time.
class IoLoop {
 public:
  // A Handle owns a watch of a descriptor or a timer. After a handle is destroyed, its callback is
  // not called again, even if the callback itself destroys the handle.
  class Handle {
   public:
    virtual ~Handle() = default;
  };

  IoLoop() = default;
  virtual ~IoLoop() = default;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Calls `ready` whenever the descriptor is readable or the peer has closed it. The caller keeps
  // the ownership of the descriptor, which must outlive the handle.
  [[nodiscard]] virtual std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                              std::function<void()> ready) = 0;
  // Calls the function `due` once, after the time `delay`.
  [[nodiscard]] virtual std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                                      std::function<void()> due) = 0;
  virtual void Post(std::function<void()> call) = 0;
};

// AsioLoop: the IoLoop of the daemon's threads.
//
// Owner: main, which creates one loop per thread. The loop's thread calls Run; Stop may be called
// from any thread. Only io_loop.cc includes Boost.Asio.
class AsioLoop final : public IoLoop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  [[nodiscard]] std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                      std::function<void()> ready) override;
  [[nodiscard]] std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                              std::function<void()> due) override;
  void Post(std::function<void()> call) override;

  // Runs until Stop. A Stop that comes before Run makes Run return at once.
  void Run();
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvd
