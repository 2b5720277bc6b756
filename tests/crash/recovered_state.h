// Describes in a text the state that a process recovers from `meta` after a kill. The text contains
// all fields and cells of sequences, snapshots and sessions, but not the blocks and slots in which
// they are stored. Memories with equal texts are indistinguishable for clients.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/memory.h"

namespace kvd::test {

// The values that the operations write for a cell (CellTag) and for a recurrent state or row of
// logits (the sum over the tokens). RecoverState compares the committed records with the values
// that the operations write, and so detects a cell, state or row that was committed before its
// bytes were written.
constexpr std::uint64_t CellTag(TokenId token, std::int32_t stored_pos) {
  return std::uint64_t{static_cast<std::uint32_t>(token)} << 32 |
         static_cast<std::uint32_t>(stored_pos);
}
constexpr std::uint64_t kSumOfNothing = 0x9e3779b97f4a7c15ull;
constexpr std::uint64_t AddToSum(std::uint64_t sum, TokenId token) {
  return (sum ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ull + 1;
}

// Returns the address of the key or value of a cell in the mapping of the calling process.
std::uint64_t* CellBytes(Memory& memory, std::uint32_t group, std::uint32_t block,
                         std::uint32_t cell, bool is_key);

struct RecoveredState {
  std::string text;
  std::string problem;  // the first inconsistency that was found; empty: none
};

// Recovers the state from `copy`, a copy of `meta`. If `copy` contains a published redo record, it
// is applied to `copy`. K, V, states and logits are read from the pool of `memory`; its `meta` is
// not read.
RecoveredState RecoverState(MetaView copy, Memory& memory);

}  // namespace kvd::test
