// OutputLedger: which outputs of the arena are still held, so that they are given back oldest
// first.
//
// The daemon knows one release cursor only. An output released before an older one is held until
// that one is released too. Owner: a Connection, under its mutex. Invariant: entries lie in the
// order of their cursors; the oldest is never a released one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvd {

class OutputLedger {
 public:
  OutputLedger();

  // An output that ends at `release_cursor`, which is beyond every earlier one. Returns its ticket.
  std::uint64_t Hold(std::uint64_t release_cursor);

  // Lets an output go. The cursor that the daemon may be told now, if that has moved. Releasing a
  // ticket twice, or one never given, changes nothing; false in `was_held` then.
  struct Released {
    bool was_held = false;
    std::optional<std::uint64_t> cursor;
  };
  Released Release(std::uint64_t ticket);

  std::uint64_t held_count() const { return end_ - begin_; }

 private:
  struct Entry {
    std::uint64_t release_cursor = 0;
    bool is_released = false;
  };
  Entry& At(std::uint64_t ticket) { return entries_[ticket & (entries_.size() - 1)]; }
  void Grow();

  std::vector<Entry> entries_;  // a ring; its size is a power of two
  std::uint64_t begin_ = 1;     // tickets [begin_, end_) are held or wait for older ones; 0 is none
  std::uint64_t end_ = 1;
};

}  // namespace kvd
