// SimulatedLoop: an IoLoop that runs only when its owner asks it to. Time is virtual. The owner
// executes the ready calls one by one, in an order of its choice.
//
// Owner: a simulation. One thread uses a SimulatedLoop. Posted calls keep the order of an AsioLoop
// (first in, first out); posted calls, due timers and readable descriptors may be interleaved in
// any order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon/process/io_loop.h"

namespace kvd::test {

class SimulatedLoop final : public IoLoop {
 public:
  // Chooses one of `count` ready calls: returns its index, a number below `count`. REQUIRES:
  // `count` is at least 1.
  using Choose = std::function<std::size_t(std::size_t count)>;

  explicit SimulatedLoop(Choose choose);
  ~SimulatedLoop() override;

  [[nodiscard]] std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                      std::function<void()> ready) override;
  [[nodiscard]] std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                              std::function<void()> due) override;
  void Post(std::function<void()> call) override;

  // Executes one ready call. False: no call is ready.
  bool RunOne();
  // Advances the time. RunOne calls the timers that become due.
  void Advance(std::chrono::milliseconds by) { now_ += by; }
  // The time until the next timer is due; 0 if one is due already. nullopt: there is no timer.
  std::optional<std::chrono::milliseconds> UntilNextTimer() const;
  // Drops the posted calls without executing them, as a loop does that is stopped and destroyed.
  void DropPosted();

 private:
  // A watched descriptor, or a timer if `descriptor` is -1.
  struct Entry {
    int descriptor = -1;
    std::chrono::milliseconds due{};
    std::function<void()> call;
  };
  using Entries = std::map<std::uint64_t, std::shared_ptr<Entry>>;
  class Registration;

  std::unique_ptr<Handle> Add(Entry entry);

  const Choose choose_;
  std::chrono::milliseconds now_{0};
  std::uint64_t last_number_ = 0;
  // The loop shares its entries with its handles, which may outlive the loop.
  const std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
  std::deque<std::function<void()>> posted_;
};

}  // namespace kvd::test
