#include "client/link.h"

#include <utility>

namespace kvd {

OutputLedger::OutputLedger() : entries_(64) {}

void OutputLedger::Grow() {
  std::vector<Entry> larger(entries_.size() * 2);
  for (std::uint64_t ticket = begin_; ticket != end_; ++ticket) {
    larger[ticket & (larger.size() - 1)] = At(ticket);
  }
  entries_ = std::move(larger);
}

std::uint64_t OutputLedger::Hold(std::uint64_t release_cursor) {
  if (end_ - begin_ == entries_.size()) Grow();
  At(end_) = {release_cursor, false};
  return end_++;
}

OutputLedger::Released OutputLedger::Release(std::uint64_t ticket) {
  if (ticket < begin_ || ticket >= end_ || At(ticket).is_released) return {};
  At(ticket).is_released = true;
  Released released{true, std::nullopt};
  while (begin_ != end_ && At(begin_).is_released) {
    released.cursor = At(begin_).release_cursor;
    ++begin_;
  }
  return released;
}

}  // namespace kvd
