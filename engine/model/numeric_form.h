// NumericForm: the order of sums, among those that kernels/kernel_table.h describes, with which a
// cell was computed.
//
// With --deterministic, all cells, states and logits of an engine have one form, including those
// that come from the prompt cache, a saved state or a warm start. Cache entries, saved states and
// `meta` therefore store the form of their content (docs/decisions/0003). The numbers of the forms
// are stored, so existing numbers must not change.
#pragma once

#include <cstdint>

#include "engine/model/gguf_file.h"
#include "kernels/kernel_table.h"

namespace kvd {

enum class NumericForm : std::uint32_t {
  kFree = 0,       // without --deterministic: any form; which one is not known
  kFloat32 = 1,    // sums in f32 and sums of integers: the same bits with every kernel table
  kBf16Pairs = 2,  // HalfDot as the avx512 table computes it with AVX512_BF16
  kBf16Tiles = 3,  // HalfDot as the amx table computes it
};

constexpr bool IsNumericForm(std::uint32_t number) { return number <= 3; }
// For messages: "products of bf16 in pairs (avx512)".
const char* NumericFormText(NumericForm form);

// The form of an engine that runs this model. The form depends on the kernel table only if the
// model has matrices of f16 or bf16.
NumericForm NumericFormOf(const GgufFile& model, const kernels::KernelTable& table,
                          bool deterministic);

// Whether an engine of form `own` may use content of form `kept`.
constexpr bool MayUse(NumericForm own, NumericForm kept) {
  return own == NumericForm::kFree || own == kept;
}

}  // namespace kvd
