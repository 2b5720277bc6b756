// AsioLoop: the IoLoop of the daemon's threads.
//
// Owner: main, one per thread. Run belongs to that thread, Stop may be called from any. Boost.Asio
// is met in asio_loop.cc and nowhere else in the daemon.
#pragma once

#include "daemon/io_loop.h"

namespace kvd {

class AsioLoop final : public IoLoop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  [[nodiscard]] std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                      std::function<void()> ready) override;
  [[nodiscard]] std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                              std::function<void()> due) override;
  void Post(std::function<void()> call) override;

  // Until Stop. A Stop before it counts.
  void Run();
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvd
