// IoLoop: the io thread's event loop: descriptors that become readable, timers, and calls posted by
// other threads.
//
// Owner: main. Run, WatchReadable, After and the callbacks belong to the thread that runs it; Post
// and Stop may be called from any thread. Boost.Asio is met in io_loop.cc and nowhere else.
// Callbacks do not throw.
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

  IoLoop();
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Calls `ready` whenever the descriptor is readable (or hung up), again as long as it stays so.
  // The descriptor remains the caller's and must outlive the handle.
  [[nodiscard]] std::unique_ptr<Handle> WatchReadable(int descriptor, std::function<void()> ready);
  // Calls `due` once.
  [[nodiscard]] std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                              std::function<void()> due);
  void Post(std::function<void()> call);

  // Until Stop. A Stop before it counts.
  void Run();
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvd
