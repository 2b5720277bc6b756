// Workers: two threads for work that would stop the event loop for long, such as reading a large
// JSON text or formatting a chat of thousands of messages.
//
//   co_await workers.Run([&] { return ParseJson(body); })
//
// The function runs on another thread while the coroutine waits, so it may use the coroutine's
// variables, and nothing that other coroutines use.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <type_traits>
#include <utility>

#include "http/loop/await.h"

namespace kvd::http {

class Workers {
 public:
  Workers() : threads_(2) {}
  ~Workers() { threads_.join(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  template <class Function>
  Await<std::invoke_result_t<Function&>> Run(Function function) {
    using Value = std::invoke_result_t<Function&>;
    co_return co_await boost::asio::co_spawn(threads_, Call<Value>(std::ref(function)),
                                             boost::asio::use_awaitable);
  }

 private:
  template <class Value, class Function>
  static Await<Value> Call(std::reference_wrapper<Function> function) {
    co_return function.get()();
  }

  boost::asio::thread_pool threads_;
};

}  // namespace kvd::http
