// SimulatedLoop: an IoLoop in which nothing happens by itself. Time is virtual, and its owner makes
// the calls that are ready one by one, in an order of its choice.
//
// Owner: a simulation. One thread. The order between the posted calls is that of an AsioLoop (first
// in, first out); any order between those, due timers and readable descriptors is possible.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon/io_loop.h"

namespace kvd::test {

class SimulatedLoop final : public IoLoop {
 public:
  // Which of `count` calls that are ready comes first: a number below `count`, which is at least 1.
  using Choose = std::function<std::size_t(std::size_t count)>;

  explicit SimulatedLoop(Choose choose);
  ~SimulatedLoop() override;

  [[nodiscard]] std::unique_ptr<Handle> WatchReadable(int descriptor,
                                                      std::function<void()> ready) override;
  [[nodiscard]] std::unique_ptr<Handle> After(std::chrono::milliseconds delay,
                                              std::function<void()> due) override;
  void Post(std::function<void()> call) override;

  // Makes one of the calls that are ready now. False: none is.
  bool RunOne();
  // Moves the time. What becomes due is called by RunOne.
  void Advance(std::chrono::milliseconds by) { now_ += by; }
  // How long until the next timer is due, 0 if one is. nullopt: there is none.
  std::optional<std::chrono::milliseconds> UntilNextTimer() const;
  // Forgets the posted calls, as a loop that is stopped and destroyed does.
  void DropPosted();

 private:
  // A watch, or a timer.
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
  // Handles may outlive the loop.
  const std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
  std::deque<std::function<void()>> posted_;
};

}  // namespace kvd::test
