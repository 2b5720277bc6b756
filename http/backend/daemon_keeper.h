// DaemonKeeper: keeps the daemon of a kvd-http running: finds or starts it, and starts it again
// when it dies, so that the sessions of all tenants continue with the daemon's stored state.
//
// The loop's thread uses a DaemonKeeper; the blocking work of DaemonProcess runs on a worker.
#pragma once

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <memory>
#include <optional>

#include "base/error.h"
#include "http/backend/daemon_process.h"
#include "http/loop/await.h"
#include "http/loop/workers.h"

namespace kvd::http {

class DaemonKeeper {
 public:
  // The workers and the loop must outlive the keeper.
  DaemonKeeper(Loop& loop, Workers& workers, DaemonLaunch launch);
  ~DaemonKeeper();

  // Waits until the daemon serves. Errors: those of DaemonProcess::Ensure.
  Await<Status> Start();
  // Watches the daemon until Stop. Spawned after Start has succeeded.
  static Await<void> Keep(std::shared_ptr<DaemonKeeper> keeper);
  // Ends Start and Keep, and stops the daemon as DaemonProcess::Stop does.
  Await<Result<DaemonProcess::Stopped>> Stop(bool forgets);

  const DaemonProcess& process() const { return process_; }

 private:
  Await<void> WaitForExit();
  Await<void> StartAgain();

  Loop& loop_;
  Workers& workers_;
  DaemonProcess process_;
  std::atomic<bool> is_stopping_ = false;
  bool is_ensuring_ = false;
  std::optional<boost::asio::posix::stream_descriptor> exit_;
};

}  // namespace kvd::http
