// An instruction consists of a VEX prefix of three bytes, an opcode, ModRM, and the SIB and
// displacement bytes that ModRM selects. The bytes of the VEX prefix are C4; inverted R, X and B
// with five bits of the opcode map; W, inverted vvvv, L and two bits for the legacy prefix.
#include "tests/kernels/tile_instruction.h"

#include <cstring>

namespace kvd::kernels {
namespace {

enum Prefix : unsigned { kNone = 0, k66 = 1, kF3 = 2, kF2 = 3 };

struct Memory {
  std::uint64_t base = 0;   // base register plus displacement
  std::uint64_t index = 0;  // index register times its scale
  bool has_sib = false;
  std::size_t byte_count = 0;  // the number of SIB and displacement bytes after ModRM
};

// Decodes the memory operand at `modrm`. extend_base, extend_index: the bits B and X of the VEX
// prefix, which add 8 to the register numbers.
Memory DecodeMemory(const std::uint8_t* modrm, bool extend_base, bool extend_index,
                    const std::uint64_t (&general)[16]) {
  const unsigned mod = *modrm >> 6, rm = *modrm & 7u;
  const std::uint8_t* at = modrm + 1;
  Memory memory;
  unsigned base = rm;
  if (rm == 4) {
    const unsigned sib = *at++;
    const unsigned index = (sib >> 3 & 7u) | (extend_index ? 8u : 0u);
    if (index != 4) memory.index = general[index] << (sib >> 6);
    memory.has_sib = true;
    base = sib & 7u;
  }
  std::size_t displacement_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  const bool has_no_base = mod == 0 && base == 5;
  if (has_no_base) displacement_bytes = 4;
  std::int64_t displacement = 0;
  if (displacement_bytes == 1) {
    displacement = (int{*at} ^ 0x80) - 0x80;  // sign-extends the byte
  } else if (displacement_bytes == 4) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    displacement = value;
  }
  at += displacement_bytes;
  if (!has_no_base) {
    memory.base = general[base | (extend_base ? 8u : 0u)];
  } else if (!memory.has_sib) {  // relative to the next instruction
    memory.base = reinterpret_cast<std::uint64_t>(at);
  }
  memory.base += static_cast<std::uint64_t>(displacement);
  memory.byte_count = static_cast<std::size_t>(at - modrm) - 1;
  return memory;
}

}  // namespace

std::optional<TileInstruction> DecodeTileInstruction(const std::uint8_t* code,
                                                     const std::uint64_t (&general)[16]) {
  constexpr unsigned kMap0F38 = 2;
  if (code[0] != 0xc4 || (code[1] & 31u) != kMap0F38) return std::nullopt;
  const bool extend_reg = (code[1] & 0x80u) == 0, extend_index = (code[1] & 0x40u) == 0,
             extend_base = (code[1] & 0x20u) == 0;
  const unsigned wide = code[2] >> 7, v = ~(code[2] >> 3) & 15u, is_256_bits = code[2] >> 2 & 1u;
  const unsigned prefix = code[2] & 3u, opcode = code[3], modrm = code[4];
  if (wide != 0 || is_256_bits != 0 || extend_reg) return std::nullopt;
  const bool is_memory = modrm < 0xc0;
  const int reg = static_cast<int>(modrm >> 3 & 7u), rm = static_cast<int>(modrm & 7u);
  TileInstruction found = {};
  found.tile = reg;
  found.byte_count = 5;

  if (opcode == 0x5e || opcode == 0x5c) {  // TDPBSSD and TDPBF16PS
    if (is_memory || extend_base || v > 7) return std::nullopt;
    if (opcode == 0x5e ? prefix != kF2 : prefix != kF3) return std::nullopt;
    found.operation =
        opcode == 0x5e ? TileOperation::kAddProducts : TileOperation::kAddHalfProducts;
    found.rows = rm;
    found.columns = static_cast<int>(v);
    return found;
  }
  if (v != 0) return std::nullopt;  // vvvv is encoded as 1111
  if (is_memory) {
    const Memory memory = DecodeMemory(code + 4, extend_base, extend_index, general);
    found.byte_count += memory.byte_count;
    if (opcode == 0x49 && prefix == kNone && reg == 0) {
      found.operation = TileOperation::kConfigure;
      found.address = memory.base + memory.index;
      return found;
    }
    if (opcode != 0x4b || !memory.has_sib || prefix == kNone) return std::nullopt;
    found.operation = prefix == kF3 ? TileOperation::kStore : TileOperation::kLoad;
    found.address = memory.base;
    found.stride = memory.index;
    return found;
  }
  if (opcode != 0x49 || rm != 0 || extend_base || extend_index) return std::nullopt;
  if (prefix == kNone && reg == 0) {
    found.operation = TileOperation::kRelease;
    return found;
  }
  if (prefix != kF2) return std::nullopt;
  found.operation = TileOperation::kZero;
  return found;
}

}  // namespace kvd::kernels
