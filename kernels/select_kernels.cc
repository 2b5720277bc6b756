// Determines which tables the machine can run (CPUID for the instructions, XGETBV for the registers
// that the system saves), and selects one.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "kernels/avx2/functions.h"
#include "kernels/avx512_tables.h"
#include "kernels/kernel_table.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels {
namespace {

struct Machine {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t leaf7_ecx = 0;
  std::uint32_t leaf7_edx = 0;
  std::uint32_t leaf7_1_eax = 0;
  std::uint64_t xcr0 = 0;
};

Machine AskMachine() {
  Machine machine;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) machine.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    machine.leaf7_ebx = b;
    machine.leaf7_ecx = c;
    machine.leaf7_edx = d;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) machine.leaf7_1_eax = a;
  if ((machine.leaf1_ecx & bit_OSXSAVE) != 0) {
    std::uint32_t low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    machine.xcr0 = std::uint64_t{high} << 32 | low;
  }
  return machine;
}

constexpr std::uint64_t kYmmState = 0x06;  // SSE and AVX state
constexpr std::uint64_t kZmmState = 0xe6;  // SSE and AVX state, and mask and zmm state

// Returns a message about a feature that the avx2 table needs and the machine lacks; null if the
// machine can run the table.
const char* LackingForAvx2(const Machine& machine) {
  if ((machine.leaf7_ebx & bit_AVX2) == 0) return "the machine lacks AVX2";
  if ((machine.leaf1_ecx & bit_FMA) == 0) return "the machine lacks FMA";
  if ((machine.leaf1_ecx & bit_F16C) == 0) return "the machine lacks F16C";
  if ((machine.xcr0 & kYmmState) != kYmmState) return "the system does not save the AVX registers";
  return nullptr;
}

// Returns a message about a feature that the avx512 table needs and the machine lacks; null if the
// machine can run the table. The avx512 table uses all features of avx2.
const char* LackingForAvx512(const Machine& machine) {
  if (const char* lacking = LackingForAvx2(machine)) return lacking;
  if ((machine.leaf7_ebx & bit_AVX512F) == 0) return "the machine lacks AVX-512 F";
  if ((machine.leaf7_ebx & bit_AVX512BW) == 0) return "the machine lacks AVX-512 BW";
  if ((machine.leaf7_ebx & bit_AVX512VL) == 0) return "the machine lacks AVX-512 VL";
  if ((machine.leaf7_ebx & bit_AVX512DQ) == 0) return "the machine lacks AVX-512 DQ";
  if ((machine.leaf7_ecx & bit_AVX512VNNI) == 0) return "the machine lacks AVX-512 VNNI";
  if ((machine.xcr0 & kZmmState) != kZmmState)
    return "the system does not save the AVX-512 registers";
  return nullptr;
}

constexpr std::uint64_t kTileState = 0x60000;  // XTILECFG and XTILEDATA
constexpr std::uint32_t kAmxBf16 = 1u << 22, kAmxTile = 1u << 24,
                        kAmxInt8 = 1u << 25;  // leaf 7 edx

// The tile registers are 8 KB of state per thread. Linux (5.16 or later) permits the use of tiles
// to a process that requests it. The permission covers all threads of the process, including future
// threads, so it is requested when the table is selected, before other threads start.
bool MayUseTiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kXtileData = 18;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
}

bool HasBf16(const Machine& machine) { return (machine.leaf7_1_eax & (1u << 5)) != 0; }

std::atomic<bool> tiles_are_assumed = false;

// Returns a message about a feature that the amx table needs and the machine lacks; null if the
// machine can run the table. The amx table uses all features of avx512. `tiles`: also check the
// tile features.
const char* LackingForAmx(const Machine& machine, bool tiles) {
  if (const char* lacking = LackingForAvx512(machine)) return lacking;
  if (tiles && (machine.leaf7_edx & kAmxTile) == 0) return "the machine lacks AMX";
  if (tiles && (machine.leaf7_edx & kAmxInt8) == 0) return "the machine lacks AMX INT8";
  if (tiles && (machine.leaf7_edx & kAmxBf16) == 0) return "the machine lacks AMX BF16";
  if (!HasBf16(machine)) return "the machine lacks AVX512_BF16";
  if (!tiles) return nullptr;
  if ((machine.xcr0 & kTileState) != kTileState)
    return "the system does not save the AMX registers";
  if (!MayUseTiles()) return "the system does not let this process use AMX";
  return nullptr;
}

}  // namespace

void AssumeTiles() { tiles_are_assumed = true; }

const KernelTable* ScalarTable() { return &scalar::kTable; }

const KernelTable* Avx2Table() {
  return LackingForAvx2(AskMachine()) == nullptr ? &avx2::kTable : nullptr;
}

const KernelTable* Avx512Table() {
  const Machine machine = AskMachine();
  return LackingForAvx512(machine) == nullptr ? TheAvx512Table(HasBf16(machine)) : nullptr;
}

const KernelTable* AmxTable() {
  const Machine machine = AskMachine();
  return LackingForAmx(machine, true) == nullptr ? TheAmxTable() : nullptr;
}

KernelChoice SelectKernels(const char* name) {
  if (name == nullptr || *name == '\0') {
    for (const KernelTable* table : {AmxTable(), Avx512Table(), Avx2Table()}) {
      if (table != nullptr) return {table, nullptr};
    }
    return {ScalarTable(), nullptr};
  }
  const auto chosen = [](const KernelTable* table, const char* lacking) -> KernelChoice {
    if (lacking != nullptr) return {nullptr, lacking};
    if (table == nullptr) return {nullptr, "this build has no AVX-512 kernels"};
    return {table, nullptr};
  };
  const Machine machine = AskMachine();
  if (std::strcmp(name, "scalar") == 0) return {ScalarTable(), nullptr};
  if (std::strcmp(name, "avx2") == 0) return chosen(&avx2::kTable, LackingForAvx2(machine));
  if (std::strcmp(name, "avx512") == 0)
    return chosen(TheAvx512Table(HasBf16(machine)), LackingForAvx512(machine));
  if (std::strcmp(name, "amx") == 0)
    return chosen(TheAmxTable(), LackingForAmx(machine, !tiles_are_assumed));
  return {nullptr, "no such table (scalar, avx2, avx512, amx)"};
}

}  // namespace kvd::kernels
