#include "engine/tuning/cpu_defaults.h"

namespace kvd {
namespace {

struct CpuDefault {
  std::string_view cpu;    // the beginning of MachineIdentity::cpu
  std::string_view table;  // the kernel table's name
  kernels::DataType type;
  kernels::ProductChoice choice;
};

// docs/measurements/product-choices.md has the figures.
constexpr CpuDefault kDefaults[] = {
    // Sapphire Rapids multiplies pairs of bf16 more slowly than f32 in vectors.
    {.cpu = "GenuineIntel 6/143/",
     .table = "avx512",
     .type = kernels::DataType::kF16,
     .choice = {}},
    {.cpu = "GenuineIntel 6/143/",
     .table = "avx512",
     .type = kernels::DataType::kBF16,
     .choice = {}},
};

}  // namespace

kernels::ProductChoices DefaultChoicesOf(std::string_view cpu, const kernels::KernelTable& table) {
  kernels::ProductChoices choices = kernels::DefaultChoices(table);
  for (const CpuDefault& known : kDefaults) {
    if (cpu.starts_with(known.cpu) && table.name == known.table) {
      choices.Set(known.type, known.choice);
    }
  }
  return choices;
}

}  // namespace kvd
