#include "tests/daemon/support/simulated_loop.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvd::test {

class SimulatedLoop::Registration final : public IoLoop::Handle {
 public:
  Registration(std::shared_ptr<Entries> entries, std::uint64_t number)
      : entries_(std::move(entries)), number_(number) {}
  ~Registration() override { entries_->erase(number_); }

 private:
  const std::shared_ptr<Entries> entries_;
  const std::uint64_t number_;
};

SimulatedLoop::SimulatedLoop(Choose choose) : choose_(std::move(choose)) {}

// An object that a posted call owns may post another call when it is destroyed.
SimulatedLoop::~SimulatedLoop() { DropPosted(); }

std::unique_ptr<IoLoop::Handle> SimulatedLoop::Add(Entry entry) {
  entries_->emplace(++last_number_, std::make_shared<Entry>(std::move(entry)));
  return std::make_unique<Registration>(entries_, last_number_);
}

std::unique_ptr<IoLoop::Handle> SimulatedLoop::WatchReadable(int descriptor,
                                                             std::function<void()> ready) {
  KVD_ASSERT(descriptor >= 0);
  return Add({.descriptor = descriptor, .due = {}, .call = std::move(ready)});
}

std::unique_ptr<IoLoop::Handle> SimulatedLoop::After(std::chrono::milliseconds delay,
                                                     std::function<void()> due) {
  return Add({.descriptor = -1, .due = now_ + delay, .call = std::move(due)});
}

void SimulatedLoop::Post(std::function<void()> call) { posted_.push_back(std::move(call)); }

void SimulatedLoop::DropPosted() {
  while (!posted_.empty()) posted_.pop_front();
}

std::optional<std::chrono::milliseconds> SimulatedLoop::UntilNextTimer() const {
  std::optional<std::chrono::milliseconds> next;
  for (const auto& [number, entry] : *entries_) {
    if (entry->descriptor >= 0) continue;
    const auto left = std::max(entry->due - now_, std::chrono::milliseconds(0));
    next = std::min(next.value_or(left), left);
  }
  return next;
}

bool SimulatedLoop::RunOne() {
  std::vector<pollfd> polled;
  for (const auto& [number, entry] : *entries_) {
    if (entry->descriptor >= 0) polled.push_back({entry->descriptor, POLLIN, 0});
  }
  if (!polled.empty()) KVD_ASSERT(::poll(polled.data(), polled.size(), 0) >= 0);
  std::vector<std::shared_ptr<Entry>> ready;
  auto polled_one = polled.begin();
  for (const auto& [number, entry] : *entries_) {
    const bool is_ready =
        entry->descriptor >= 0 ? (polled_one++)->revents != 0 : entry->due <= now_;
    if (is_ready) ready.push_back(entry);
  }
  const std::size_t count = ready.size() + (posted_.empty() ? 0 : 1);
  if (count == 0) return false;
  const std::size_t chosen = choose_(count);
  if (chosen == ready.size()) {
    const std::function<void()> call = std::move(posted_.front());
    posted_.pop_front();
    call();
    return true;
  }
  const std::shared_ptr<Entry> entry = std::move(ready[chosen]);
  ready.clear();
  if (entry->descriptor < 0) {
    // A timer is due once, so it is removed before its call.
    std::erase_if(*entries_, [&](const auto& known) { return known.second == entry; });
  }
  entry->call();  // may destroy the handle of this entry
  return true;
}

}  // namespace kvd::test
