// The alternatives of products that are compared by measuring, their limits, and their text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

// Numbers of rows at which the wide form is compared with the narrow form; a wide form is chosen
// from one of these numbers on.
inline constexpr std::uint32_t kFormRows[] = {2, 4, 8, 16, 32, 64, 128};
// Numbers of rows at which panels of quantised weights are compared with blocks in registers. The
// last number is more than any kernel computes in registers.
inline constexpr std::uint32_t kPanelRows[] = {3, 4, 5, 6, 8, 10, 12, 13};
inline constexpr std::uint32_t kAheadBytes[] = {8192, 32768, 65536};
inline constexpr std::uint32_t kPanelSizes[] = {32};
// Rows of the products that compare sizes of panels.
inline constexpr std::uint32_t kWideRows = 128;

// The type whose DataTypeName is `name`.
std::optional<kernels::DataType> DataTypeNamed(std::string_view name);

// The fields that differ from the kernel table's own behaviour: "wide bf16 from 8 ahead 32768
// panel_from 5 panel_outs 32"; "wide outer from 64"; "wide none" if all products have the narrow
// form.
std::string ChoiceText(const kernels::ProductChoice& choice);
// Reads the words of ChoiceText. Errors: kCorrupt (the message names the word), kUnsupported (the
// table has no such products of this type).
Result<kernels::ProductChoice> ParseChoice(std::span<const std::string_view> words,
                                           const kernels::KernelTable& table,
                                           kernels::DataType type);

// The choices of products before anything is measured: those of the kernel table, changed for the
// processors on which other choices were found to be faster.

// cpu: MachineIdentity::cpu.
kernels::ProductChoices DefaultChoicesOf(std::string_view cpu, const kernels::KernelTable& table);

}  // namespace kvd
