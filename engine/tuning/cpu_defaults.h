// The choices of products before anything is measured: those of the kernel table, changed for the
// processors on which other choices were found to be faster.
#pragma once

#include <string_view>

#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

// cpu: MachineIdentity::cpu.
kernels::ProductChoices DefaultChoicesOf(std::string_view cpu, const kernels::KernelTable& table);

}  // namespace kvd
