// Decodes the machine code of tile instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvd::kernels {

enum class TileOperation {
  kConfigure,
  kRelease,
  kZero,
  kLoad,  // TILELOADD and TILELOADDT1
  kStore,
  kAddProducts,
  kAddHalfProducts,
};

struct TileInstruction {
  TileOperation operation;
  int tile;                // the tile that is written or stored
  int rows;                // first source of a product
  int columns;             // second source of a product
  std::uint64_t address;   // address of the first row or of the configuration
  std::uint64_t stride;    // bytes from one row to the next
  std::size_t byte_count;  // length of the instruction
};

// Decodes the instruction at `code` in 64-bit mode. Returns nullopt if it is not one of the
// operations above or if its encoding is invalid (a wrong prefix, a tile number above 7).
// `general`: the general registers in the order of their numbers: rax, rcx, rdx, rbx, rsp, rbp,
// rsi, rdi, r8 to r15. REQUIRES: all bytes of the instruction are readable.
std::optional<TileInstruction> DecodeTileInstruction(const std::uint8_t* code,
                                                     const std::uint64_t (&general)[16]);

}  // namespace kvd::kernels
