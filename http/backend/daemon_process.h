// The daemon that kvd-http runs: its process, and what keeps it running.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "client/client.h"
#include "http/loop/await.h"
#include "http/loop/loop_workers.h"

namespace kvd::http {

// DaemonProcess: a daemon that kvd-http has started, or that an earlier kvd-http has started and
// left behind: found or started, started again when it dies, and stopped at an orderly end.
//
// Several kvd-http may use one daemon. Beside the daemon's socket are two files:
//
//   NAME.starting  locked (exclusively) while a kvd-http finds, starts or stops the daemon
//   NAME.gateways  locked (shared) by each kvd-http that uses the daemon
//
// A daemon that runs with other flags is stopped and started with those of the launch, which keeps
// its state; if another kvd-http uses it, Ensure fails with kExists.
//
// At its orderly end a kvd-http stops the daemon only if no other one holds NAME.gateways; the last
// one stops it. The kernel releases the locks of a process that is killed, so the daemon of a
// killed kvd-http waits for the next one, which finds it by its name.
//
// The functions block and are for a worker thread, but for Exited, which is for the loop. A
// DaemonProcess does not stop its daemon when it is destroyed.
struct DaemonLaunch {
  std::string program;  // path of kvd
  std::string name;
  std::vector<std::string> arguments;  // without the name
  std::string log_path;
};

class DaemonProcess {
 public:
  explicit DaemonProcess(DaemonLaunch launch) : launch_(std::move(launch)) {}
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Finds the running daemon or starts it, and waits until it serves clients, however long it reads
  // its model. Called again after Exited. Errors: kCancelled (`is_cancelled` became true); kExists
  // (another kvd-http uses the daemon with other flags); kIo: the daemon has ended; the message is
  // the last line of its log; those of Client::Connect.
  Status Ensure(const std::atomic<bool>& is_cancelled);

  const std::string& name() const { return launch_.name; }
  pid_t pid() const { return pid_; }
  bool was_started() const { return was_started_; }  // by the last Ensure
  // A descriptor that becomes readable when the daemon has ended. REQUIRES: Ensure has succeeded.
  int exit_descriptor() const { return exited_.get(); }
  // Waits for a child that has ended, and returns how: "exit status 1", "signal 9".
  std::string Reap();

  enum class Stopped : unsigned char { kStopped, kUsedByOthers };
  // Stops the daemon, and removes its stored state if `forgets`, unless another kvd-http uses it.
  // Errors: kTimeout: it has not ended in `grace` and was killed; those of RunProgram.
  Result<Stopped> Stop(bool forgets, std::chrono::milliseconds grace);
  // Sends SIGHUP: the daemon reads its tenants' file again.
  void SendReload() const;

 private:
  Status Connect();
  Status StartAndWait(const std::atomic<bool>& is_cancelled);
  Status WaitUntilServing(const std::atomic<bool>& is_cancelled);
  Result<pid_t> Start();
  // Stops a daemon with other flags that no other kvd-http uses. REQUIRES: NAME.starting is locked.
  // Errors: kExists.
  Status StopForOtherFlags();
  std::vector<std::string> Arguments() const;

  DaemonLaunch launch_;
  UniqueFd users_;   // NAME.gateways, locked
  UniqueFd exited_;  // pidfd of the daemon
  pid_t pid_ = -1;
  bool is_child_ = false;
  bool was_started_ = false;
};

// The last line of a file that is not empty; empty: there is none.
std::string LastLine(const std::string& path);

// DaemonKeeper: keeps the daemon of a kvd-http running: finds or starts it, and starts it again
// when it dies, so that the sessions of all tenants continue with the daemon's stored state.
//
// The loop's thread uses a DaemonKeeper; the blocking work of DaemonProcess runs on a worker.
class DaemonKeeper {
 public:
  // The workers and the loop must outlive the keeper.
  DaemonKeeper(Loop& loop, LoopWorkers& workers, DaemonLaunch launch);
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
  LoopWorkers& workers_;
  DaemonProcess process_;
  std::atomic<bool> is_stopping_ = false;
  bool is_ensuring_ = false;
  std::optional<boost::asio::posix::stream_descriptor> exit_;
};

}  // namespace kvd::http
