// LabelledExecutor: runs coroutines on an event loop with a label for the TurnWatch: every turn of
// such a coroutine, and of the coroutines that it awaits, is a turn of this label.
//
//   boost::asio::co_spawn(Labelled(loop, &route.pattern), Handle(...), boost::asio::detached);
//
// It adds the label to what the loop's own executor does, with all properties of that executor, as
// boost::asio::strand adds its order.
#pragma once

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "http/loop/turn_watch.h"

namespace kvd::http {

template <class Inner>
class LabelledExecutor {
 public:
  LabelledExecutor(Inner inner, const std::string* label)
      : inner_(std::move(inner)), label_(label) {}

  template <class Property>
  auto query(const Property& property) const
      -> decltype(boost::asio::query(std::declval<const Inner&>(), property)) {
    return boost::asio::query(inner_, property);
  }
  template <class Property>
  auto require(const Property& property) const -> LabelledExecutor<
      std::decay_t<decltype(boost::asio::require(std::declval<const Inner&>(), property))>> {
    return {boost::asio::require(inner_, property), label_};
  }
  template <class Property>
  auto prefer(const Property& property) const -> LabelledExecutor<
      std::decay_t<decltype(boost::asio::prefer(std::declval<const Inner&>(), property))>> {
    return {boost::asio::prefer(inner_, property), label_};
  }
  template <class Function>
  void execute(Function&& function) const {
    inner_.execute([label = label_,
                    call = std::decay_t<Function>(std::forward<Function>(function))]() mutable {
      const TurnLabel scope(label);
      std::move(call)();
    });
  }

  friend bool operator==(const LabelledExecutor& a, const LabelledExecutor& b) noexcept {
    return a.inner_ == b.inner_ && a.label_ == b.label_;
  }
  friend bool operator!=(const LabelledExecutor& a, const LabelledExecutor& b) noexcept {
    return !(a == b);
  }

 private:
  Inner inner_;
  const std::string* label_;
};

// `label` must outlive the coroutine; null: none.
inline LabelledExecutor<Loop::executor_type> Labelled(Loop& loop, const std::string* label) {
  return {loop.get_executor(), label};
}

}  // namespace kvd::http
