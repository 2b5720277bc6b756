#include "http/backend/daemon_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <utility>

namespace kvd::http {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// Time for the daemon to end; llama-server's callers wait 5 seconds for all of the end.
constexpr milliseconds kStopTime{2'500};
// Between two failed starts.
constexpr milliseconds kRetryMin{200};
constexpr milliseconds kRetryMax{5'000};
constexpr milliseconds kPoll{5};

}  // namespace

DaemonKeeper::DaemonKeeper(Loop& loop, Workers& workers, DaemonLaunch launch)
    : loop_(loop), workers_(workers), process_(std::move(launch)) {}

DaemonKeeper::~DaemonKeeper() {
  // The descriptor belongs to the process.
  if (exit_) (void)exit_->release();
}

Await<Status> DaemonKeeper::Start() {
  is_ensuring_ = true;
  Status ensured = co_await workers_.Run([this] { return process_.Ensure(is_stopping_); });
  is_ensuring_ = false;
  co_return ensured;
}

Await<void> DaemonKeeper::WaitForExit() {
  exit_.emplace(loop_, process_.exit_descriptor());
  (void)co_await exit_->async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::as_tuple(asio::use_awaitable));
  (void)exit_->release();
  exit_.reset();
}

Await<void> DaemonKeeper::StartAgain() {
  asio::steady_timer timer(loop_);
  for (milliseconds pause = kRetryMin; !is_stopping_; pause = std::min(2 * pause, kRetryMax)) {
    const Status started = co_await Start();
    if (started || is_stopping_) co_return;
    std::fprintf(stderr, "kvd-http: the daemon does not start: %s\n",
                 started.error().message.c_str());
    timer.expires_after(pause);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

Await<void> DaemonKeeper::Keep(std::shared_ptr<DaemonKeeper> keeper) {
  while (!keeper->is_stopping_) {
    co_await keeper->WaitForExit();
    if (keeper->is_stopping_) break;
    const std::string how = keeper->process_.Reap();
    std::fprintf(stderr, "kvd-http: the daemon %s has ended (%s); starting it again\n",
                 keeper->process_.name().c_str(), how.c_str());
    co_await keeper->StartAgain();
    if (keeper->is_stopping_) break;
    std::fprintf(stderr, "kvd-http: started the daemon %s again, pid %d\n",
                 keeper->process_.name().c_str(), static_cast<int>(keeper->process_.pid()));
  }
}

Await<Result<DaemonProcess::Stopped>> DaemonKeeper::Stop(bool forgets) {
  is_stopping_ = true;
  if (exit_) exit_->cancel();
  asio::steady_timer timer(loop_);
  while (is_ensuring_ || exit_) {
    timer.expires_after(kPoll);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return co_await workers_.Run([&] { return process_.Stop(forgets, kStopTime); });
}

}  // namespace kvd::http
