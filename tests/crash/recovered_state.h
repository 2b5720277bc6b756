// What a process that finds a `meta` after a kill would find in it, in words: everything that its
// sequences, snapshots and sessions say, and nothing of where it lies. Two memories that say the
// same are the same to their clients.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/memory.h"

namespace kvd::test {

// The bytes that the operations here write for a cell, a state and a row of logits, so that one that
// was committed before its bytes were there is noticed.
constexpr std::uint64_t CellTag(TokenId token, std::int32_t stored_pos) {
  return std::uint64_t{static_cast<std::uint32_t>(token)} << 32 |
         static_cast<std::uint32_t>(stored_pos);
}
constexpr std::uint64_t kSumOfNothing = 0x9e3779b97f4a7c15ull;
constexpr std::uint64_t AddToSum(std::uint64_t sum, TokenId token) {
  return (sum ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ull + 1;
}

// Where the operations write it. Any process that has mapped the memory's pool.
std::uint64_t* CellBytes(Memory& memory, std::uint32_t group, std::uint32_t block,
                         std::uint32_t cell, bool is_key);

struct RecoveredState {
  std::string text;
  std::string problem;  // empty: none
};

// Recovers in `copy`, which the published record, if there is one, is applied to. K, V and states
// are read from the pool of `memory`; nothing else of that object is used.
RecoveredState RecoverState(MetaView copy, Memory& memory);

}  // namespace kvd::test
