#include "tests/kernels/trapped_tiles.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "tests/kernels/tile_instruction.h"
#include "tests/kernels/tile_unit.h"

namespace kvd::kernels {
namespace {

// The emulated tiles of the thread. The tiles are initialised at compile time, because a signal
// handler must not run a constructor.
constinit thread_local TileUnit unit;
std::atomic<bool> are_trapped = false;

[[noreturn]] void EndProcess(const char* why, const void* code) {
  char text[160];
  const int length = std::snprintf(text, sizeof text, "illegal instruction at %p: %s\n", code, why);
  if (::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) std::abort();
  std::abort();
}

const char* CarryOut(const TileInstruction& instruction) {
  const int tile = instruction.tile;
  switch (instruction.operation) {
    case TileOperation::kConfigure:
      return unit.Configure(std::bit_cast<const void*>(instruction.address));
    case TileOperation::kRelease: unit.Release(); return nullptr;
    case TileOperation::kZero: return unit.Zero(tile);
    case TileOperation::kLoad:
      return unit.Load(tile, std::bit_cast<const void*>(instruction.address), instruction.stride);
    case TileOperation::kStore:
      return unit.Store(tile, std::bit_cast<void*>(instruction.address), instruction.stride);
    case TileOperation::kAddProducts:
      return unit.AddProducts(tile, instruction.rows, instruction.columns);
    case TileOperation::kAddHalfProducts:
      return unit.AddHalfProducts(tile, instruction.rows, instruction.columns);
  }
  return "the operation is not emulated";
}

void OnIllegalInstruction(int, siginfo_t*, void* context) {
  constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
  auto& saved = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  std::uint64_t general[16];
  for (int i = 0; i < 16; ++i) general[i] = static_cast<std::uint64_t>(saved[kRegisters[i]]);
  const auto* code = std::bit_cast<const std::uint8_t*>(saved[REG_RIP]);
  auto instruction = DecodeTileInstruction(code, general);
  if (!instruction) EndProcess("not a tile instruction, or one that is not emulated", code);
  // Tile instructions change no general register, so the handler also emulates the tile
  // instructions that directly follow, without a signal for each.
  for (; instruction; instruction = DecodeTileInstruction(code, general)) {
    if (const char* fault = CarryOut(*instruction)) EndProcess(fault, code);
    code += instruction->byte_count;
  }
  saved[REG_RIP] = reinterpret_cast<greg_t>(code);
}

// Installs the handler. Returns false if the machine lacks instructions of the amx table other than
// the tile instructions.
bool Trap() {
  AssumeTiles();
  if (SelectKernels("amx").table == nullptr) return false;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  KVD_ASSERT(::sigaction(SIGILL, &action, nullptr) == 0);
  are_trapped = true;
  return true;
}

}  // namespace

KernelChoice SelectOrTrap(const char* name) {
  const KernelChoice choice = SelectKernels(name);
  if (choice.table != nullptr || name == nullptr || std::strcmp(name, "amx") != 0) return choice;
  static const bool trapped = Trap();
  return trapped ? SelectKernels(name) : choice;
}

bool TilesAreTrapped() { return are_trapped; }

}  // namespace kvd::kernels
