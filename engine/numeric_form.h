// NumericForm: which of the orders of sums that kernels/kernel_table.h describes computed a cell.
//
// With --deterministic cells, states and logits of one form may stand beside each other and no
// others may, however they arrived: the prompt cache, saved states and a warm start name the form of
// what they keep (docs/decisions/0003). Numbers are stored: append only.
#pragma once

#include <cstdint>

#include "engine/gguf_file.h"
#include "kernels/kernel_table.h"

namespace kvd {

enum class NumericForm : std::uint32_t {
  kFree = 0,       // without --deterministic: any, and none that is known
  kFloat32 = 1,    // sums in f32 and of integers: the same bits on every table
  kBf16Pairs = 2,  // HalfDot as avx512 with AVX512_BF16 has it
  kBf16Tiles = 3,  // HalfDot as amx has it
};

constexpr bool IsNumericForm(std::uint32_t number) { return number <= 3; }
// For messages: "products of bf16 in pairs".
const char* NumericFormText(NumericForm form);

// The form of an engine over the model of this file. Only models with matrices of f16 or bf16 have
// one that depends on the table.
NumericForm NumericFormOf(const GgufFile& model, const kernels::KernelTable& table,
                          bool deterministic);

// Whether what is kept in form `kept` may be used by an engine of form `own`.
constexpr bool MayUse(NumericForm own, NumericForm kept) {
  return own == NumericForm::kFree || own == kept;
}

}  // namespace kvd
