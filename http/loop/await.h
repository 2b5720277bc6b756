// Await: the type of the gateway's coroutines, which all run on one event loop.
//
// A coroutine is used by the thread that runs the loop and by no other thread, so state that
// coroutines share needs no lock; it may change at every co_await.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace kvd::http {

using Loop = boost::asio::io_context;
template <class T>
using Await = boost::asio::awaitable<T>;

}  // namespace kvd::http

// KVD_TRY and KVD_CHECK_OK (base/error.h) for coroutines that return Await<Result<T>>.
#define KVD_CO_TRY(declaration, expression)                                       \
  auto KVD_CONCAT(kvd_try_, __LINE__) = (expression);                             \
  if (!KVD_CONCAT(kvd_try_, __LINE__))                                            \
    co_return std::unexpected(std::move(KVD_CONCAT(kvd_try_, __LINE__)).error()); \
  declaration = std::move(*KVD_CONCAT(kvd_try_, __LINE__))
#define KVD_CO_CHECK_OK(expression)                                            \
  do {                                                                         \
    auto kvd_status = (expression);                                            \
    if (!kvd_status) co_return std::unexpected(std::move(kvd_status).error()); \
  } while (0)
