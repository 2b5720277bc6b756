// AsioLoop: the IoLoop of the daemon's threads.
//
// Owner: main, which creates one loop per thread. The loop's thread calls Run; Stop may be called
// from any thread. Only asio_loop.cc includes Boost.Asio.
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

  // Runs until Stop. A Stop that comes before Run makes Run return at once.
  void Run();
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvd
