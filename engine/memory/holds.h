// Holds: the content of a sequence stays readable as it was (hold_and_restore.h). Part of Memory. Threads:
// any.
//
// A hold is references to a sequence's blocks and slots that only this process knows of. The tables
// that are derived from `meta` do not count them, so a hold is no commit and a killed process
// leaves none behind.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/hold_and_restore.h"
#include "engine/memory/memory_store.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class Holds {
 public:
  explicit Holds(MemoryStore& store) : store_(store) {}
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // Keeps all that the sequence consists of readable until Release, whatever becomes of the
  // sequence. Error: kNotFound.
  Status Begin(SequenceHandle handle, SequenceHold* hold);
  void Release(SequenceHold& hold);
  // Tokens and effective positions of the cells [first_cell, first_cell + count) of a sequence, as
  // they were at one moment; fewer at its end. More than kCellsReadAtOnce are read without the mutex.
  // Error: kNotFound.
  static constexpr std::uint32_t kCellsReadAtOnce = 1024;
  Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                   std::vector<TokenId>* tokens, std::vector<Pos>* positions);

 private:
  MemoryStore& store_;
};

}  // namespace kvd
