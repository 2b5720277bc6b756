// The tile instructions as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvd::kernels {

enum class TileOperation {
  kConfigure,
  kRelease,
  kZero,
  kLoad,  // with the hint that the data is not used again, too
  kStore,
  kAddProducts,
  kAddHalfProducts,
};

struct TileInstruction {
  TileOperation operation;
  int tile;                // that is written, or stored
  int rows;                // of a product: its first source
  int columns;             // its second
  std::uint64_t address;   // of the first row, or of the configuration
  std::uint64_t stride;    // bytes from one row to the next
  std::size_t byte_count;  // of the instruction
};

// The instruction at `code`, at least as many bytes as it has; nothing if it is not one of these in
// 64-bit mode, or one that the processor would not know (a prefix, a tile of a number over 7).
// general: the registers in the order of their numbers, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to
// r15.
std::optional<TileInstruction> DecodeTileInstruction(const std::uint8_t* code,
                                                     const std::uint64_t (&general)[16]);

}  // namespace kvd::kernels
