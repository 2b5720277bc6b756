// The watch over the turns of the event loop, and the executor that labels turns for it.
#pragma once

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "http/loop/await.h"

namespace kvd::http {

// The factor by which sanitizers slow the code down.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSanitizerFactor = 10;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr int kSanitizerFactor = 10;
#else
inline constexpr int kSanitizerFactor = 1;
#endif
#else
inline constexpr int kSanitizerFactor = 1;
#endif

// A turn whose work is known to be long. The list is the only place for exceptions.
struct KnownLongTurn {
  std::string_view label;
  std::string_view reason;
};
// The label of the work before requests are served.
inline constexpr std::string_view kStartLabel = "(start)";
// The reason why turns with this label may be long; empty: there is none.
std::string_view ReasonForLongTurns(std::string_view label);

// TurnWatch: runs the event loop and measures how long each of its turns keeps the loop's thread
// busy.
//
// A turn is what the loop does between two looks at its queue: one coroutine from where it was
// woken to where it waits again. While a turn lasts, no other request is served, so a turn of more
// than kLongTurn is counted, logged with its route, and shown by GET /metrics. Time is CPU time of
// the thread: a machine that is busy with other programs makes no turn long.
//
// Reading the CPU time is a system call, so it is read when a turn has taken long by the clock, and
// otherwise every kMarkTime; a turn is therefore measured too short by at most kMarkTime.
//
// The loop's thread uses a TurnWatch; there is one for each loop.
class TurnWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongTurn{20 * kSanitizerFactor};
  static constexpr std::chrono::milliseconds kMarkTime{2};

  explicit TurnWatch(Loop& loop) : loop_(loop) {}
  TurnWatch(const TurnWatch&) = delete;
  TurnWatch& operator=(const TurnWatch&) = delete;

  // Runs turns until the loop is stopped or has nothing to wait for.
  void Run();
  // Runs one turn, or waits `time` for one. Returns false if there was none.
  bool RunOneFor(Clock::duration time);
  // Runs one turn that is ready. Returns false if there is none.
  bool PollOne();

  struct LongTurns {
    std::uint64_t count = 0;
    std::chrono::nanoseconds longest{0};
  };
  // By label: that of the turn's route; "" for turns of no route.
  const std::map<std::string, LongTurns>& long_turns() const { return long_turns_; }
  // The labels of long turns for which there is no reason, with their longest times; empty: none.
  std::string UnexplainedLongTurns() const;

 private:
  // A moment by the clock and by the thread's CPU time.
  struct Mark {
    Clock::time_point at;
    std::chrono::nanoseconds cpu{0};
  };
  static Mark MarkNow();
  void EndTurn(Clock::time_point begun);
  void Count(std::chrono::nanoseconds time);

  Loop& loop_;
  Mark mark_ = MarkNow();
  std::map<std::string, LongTurns> long_turns_;
  Clock::time_point logged_at_{};
};

// The label of the turn that runs on this thread: the first one that was set in it.
class TurnLabel {
 public:
  // The label must outlive the turn.
  explicit TurnLabel(const std::string* label);
  ~TurnLabel();
  TurnLabel(const TurnLabel&) = delete;
  TurnLabel& operator=(const TurnLabel&) = delete;

  // The label that the running coroutine has, for coroutines that it starts; null: none.
  static const std::string* Current();

 private:
  const std::string* outer_;
};

// LabelledExecutor: runs coroutines on an event loop with a label for the TurnWatch: every turn of
// such a coroutine, and of the coroutines that it awaits, is a turn of this label.
//
//   boost::asio::co_spawn(Labelled(loop, &route.pattern), Handle(...), boost::asio::detached);
//
// It adds the label to what the loop's own executor does, with all properties of that executor, as
// boost::asio::strand adds its order.
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
