// A watch of a descriptor is one pending async_wait; the handler of the async_wait starts the next
// async_wait. The handle and the handler share the state that the handler needs, so destroying the
// handle while the handler is queued leaves no dangling reference.
#include "daemon/process/io_loop.h"

#include "base/sanitizers.h"

// ThreadSanitizer does not support the fences that Asio uses by default, so a build with
// ThreadSanitizer uses no fences. The loop's own mutex orders the calls given to Post.
#if KVD_THREAD_SANITIZER
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace kvd {
namespace {

namespace asio = boost::asio;

struct WatchState {
  WatchState(asio::io_context& context, int descriptor, std::function<void()> callback)
      : stream(context, descriptor), ready(std::move(callback)) {}
  asio::posix::stream_descriptor stream;
  std::function<void()> ready;
  bool closed = false;
};

void Arm(const std::shared_ptr<WatchState>& state) {
  state->stream.async_wait(asio::posix::stream_descriptor::wait_read,
                           [state](const boost::system::error_code& error) {
                             if (state->closed || error) return;
                             state->ready();
                             if (!state->closed) Arm(state);
                           });
}

class Watch final : public IoLoop::Handle {
 public:
  explicit Watch(std::shared_ptr<WatchState> state) : state_(std::move(state)) {}
  ~Watch() override {
    state_->closed = true;
    state_->stream.release();  // release cancels the wait; the caller keeps the descriptor
  }

 private:
  std::shared_ptr<WatchState> state_;
};

class Timer final : public IoLoop::Handle {
 public:
  Timer(asio::io_context& context, std::chrono::milliseconds delay, std::function<void()> due)
      : alive_(std::make_shared<bool>(true)), timer_(context, delay) {
    timer_.async_wait(
        [alive = alive_, due = std::move(due)](const boost::system::error_code& error) {
          if (*alive && !error) due();
        });
  }
  ~Timer() override { *alive_ = false; }

 private:
  std::shared_ptr<bool> alive_;
  asio::steady_timer timer_;
};

}  // namespace

struct AsioLoop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

AsioLoop::AsioLoop() : impl_(std::make_unique<Impl>()) {}
AsioLoop::~AsioLoop() = default;

std::unique_ptr<IoLoop::Handle> AsioLoop::WatchReadable(int descriptor,
                                                        std::function<void()> ready) {
  auto state = std::make_shared<WatchState>(impl_->context, descriptor, std::move(ready));
  Arm(state);
  return std::make_unique<Watch>(std::move(state));
}

std::unique_ptr<IoLoop::Handle> AsioLoop::After(std::chrono::milliseconds delay,
                                                std::function<void()> due) {
  return std::make_unique<Timer>(impl_->context, delay, std::move(due));
}

void AsioLoop::Post(std::function<void()> call) { asio::post(impl_->context, std::move(call)); }

void AsioLoop::Run() { impl_->context.run(); }
void AsioLoop::Stop() { impl_->context.stop(); }

}  // namespace kvd
