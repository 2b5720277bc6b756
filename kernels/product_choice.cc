#include "kernels/product_choice.h"

#include "kernels/kernel_table.h"

namespace kvd::kernels {
namespace {

std::size_t Bf16RowsMin(const KernelTable& table, DataType type) {
  if (type == DataType::kF32 || table.round_rows == nullptr) return 0;
  return IsQuantized(type) ? table.bf16_quant_rows_min : table.bf16_rows_min;
}

}  // namespace

bool Supports(const KernelTable& table, DataType type, WideForm form) {
  return form == WideForm::kAsNarrow || Bf16RowsMin(table, type) != 0;
}

ProductChoices DefaultChoices(const KernelTable& table) {
  ProductChoices choices;
  for (const DataType type : kDataTypes) {
    const std::size_t rows = Bf16RowsMin(table, type);
    if (rows != 0) choices.Set(type, {WideForm::kBf16, static_cast<std::uint32_t>(rows)});
  }
  return choices;
}

}  // namespace kvd::kernels
