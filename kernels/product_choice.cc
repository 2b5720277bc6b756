#include "kernels/product_choice.h"

#include "kernels/kernel_table.h"

namespace kvd::kernels {
namespace {

std::size_t Bf16RowsMin(const KernelTable& table, DataType type) {
  if (type == DataType::kF32 || table.round_rows == nullptr) return 0;
  return IsQuantized(type) ? table.bf16_quant_rows_min : table.bf16_rows_min;
}

bool IsHalf(DataType type) { return type == DataType::kF16 || type == DataType::kBF16; }

}  // namespace

const char* WideFormName(WideForm form) {
  switch (form) {
    case WideForm::kAsNarrow: return "none";
    case WideForm::kBf16: return "bf16";
    case WideForm::kOuter: return "outer";
  }
  return "unknown";
}

bool Supports(const KernelTable& table, DataType type, WideForm form) {
  switch (form) {
    case WideForm::kAsNarrow: return true;
    case WideForm::kBf16: return Bf16RowsMin(table, type) != 0;
    case WideForm::kOuter: return !IsQuantized(type);
  }
  return false;
}

ProductChoices DefaultChoices(const KernelTable& table) {
  ProductChoices choices;
  for (const DataType type : kDataTypes) {
    if (const std::size_t rows = Bf16RowsMin(table, type); rows != 0) {
      choices.Set(type, {WideForm::kBf16, static_cast<std::uint32_t>(rows)});
    } else if (table.outer_rows_min != 0 && IsHalf(type)) {
      choices.Set(type, {WideForm::kOuter, static_cast<std::uint32_t>(table.outer_rows_min)});
    }
  }
  return choices;
}

}  // namespace kvd::kernels
