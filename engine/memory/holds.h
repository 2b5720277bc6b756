// Holds: keeps the content of a sequence readable as it was when the hold began
// (hold_and_restore.h). Holds is a part of Memory. Threads: any.
//
// A hold consists of references to a sequence's blocks and slots that only this process knows. The
// tables that are derived from `meta` do not count the references of holds, so a hold needs no
// commit, and a killed process leaves no hold.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/hold_and_restore.h"
#include "engine/memory/memory_store.h"

namespace kvd {

class Holds {
 public:
  explicit Holds(MemoryStore& store) : store_(store) {}
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // Keeps the sequence's cells, state, checkpoints and row of logits readable until Release, even
  // if the sequence is edited or dropped. Error: kNotFound.
  Status Begin(SequenceHandle handle, SequenceHold* hold);
  void Release(SequenceHold& hold);
  // Reads tokens and effective positions of the cells [first_cell, first_cell + count) of a
  // sequence; fewer cells if the sequence ends earlier. No edit takes effect between the reads of
  // two cells by one call of ReadCells. To read more than kCellsReadAtOnce cells, ReadCells takes a
  // brief hold and reads the cells without the mutex. Error: kNotFound.
  static constexpr std::uint32_t kCellsReadAtOnce = 1024;
  Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                   std::vector<TokenId>* tokens, std::vector<Pos>* positions);

 private:
  MemoryStore& store_;
};

}  // namespace kvd
