// LoopWorkers: threads (two) for work that would stop the event loop for long, such as reading a
// large JSON text or formatting a chat of thousands of messages.
//
//   co_await workers.Run([&] { return ParseJson(body); })
//
// The function runs on another thread while the coroutine waits, so it may use the coroutine's
// variables, and nothing that other coroutines use. LoopWorkers without threads run the function on
// the loop, in a later turn; so do fuzz targets, whose runs must not depend on the order of
// threads.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "http/loop/await.h"

namespace kvd::http {

class LoopWorkers {
 public:
  explicit LoopWorkers(std::size_t thread_count = 2) {
    if (thread_count != 0) threads_.emplace(thread_count);
  }
  ~LoopWorkers() {
    if (threads_) threads_->join();
  }
  LoopWorkers(const LoopWorkers&) = delete;
  LoopWorkers& operator=(const LoopWorkers&) = delete;

  template <class Function>
  Await<std::invoke_result_t<Function&>> Run(Function function) {
    using Value = std::invoke_result_t<Function&>;
    if (!threads_) {
      co_await boost::asio::post(boost::asio::use_awaitable);
      co_return function();
    }
    co_return co_await boost::asio::co_spawn(*threads_, Call<Value>(std::ref(function)),
                                             boost::asio::use_awaitable);
  }

 private:
  template <class Value, class Function>
  static Await<Value> Call(std::reference_wrapper<Function> function) {
    co_return function.get()();
  }

  std::optional<boost::asio::thread_pool> threads_;
};

}  // namespace kvd::http
