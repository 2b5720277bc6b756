// The choices among the forms of matrix products: one ProductChoice for each type of weights.
//
// The form of a product changes its speed and, without --deterministic, the bits of its results
// within the golden tolerances. With --deterministic the forms of kernels/kernel_table.h do not
// depend on any choice. DefaultChoices holds the choices that a kernel table makes; an engine may
// replace them by measured choices before a step, never during a step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data_type.h"

namespace kvd::kernels {

struct KernelTable;

// The form of a product of many rows. The numbers are those of wire::ChoiceRecord.
enum class WideForm : std::uint8_t {
  kAsNarrow = 0,  // the form of a product of few rows: f32, or integers for quantised weights
  kBf16 = 1,      // weights and x rounded to bf16
  kOuter = 2,     // sums of outer products in f32, for weights of f32, f16 and bf16
};

struct ProductChoice {
  WideForm wide_form = WideForm::kAsNarrow;
  std::uint32_t wide_from_rows = 0;  // a product of at least so many rows has wide_form
  // The following members change only the speed of products with quantised weights, never their
  // bits. 0: the kernel's own value.
  std::uint32_t ahead_bytes = 0;  // distance of prefetches from memory, with few rows
  // Number of rows from which blocks are unpacked into a panel instead of registers. A kernel uses
  // panels from fewer rows on if it has no registers for so many.
  std::uint32_t panel_from_rows = 0;
  std::uint32_t panel_outs = 0;  // outputs of a panel: 32, or 64 if 64 fit

  friend bool operator==(const ProductChoice&, const ProductChoice&) = default;
};

class ProductChoices {
 public:
  const ProductChoice& For(DataType type) const { return of_[Place(type)]; }
  void Set(DataType type, const ProductChoice& choice) { of_[Place(type)] = choice; }

  friend bool operator==(const ProductChoices&, const ProductChoices&) = default;

 private:
  static constexpr std::size_t kPlaces = 64;
  static constexpr std::size_t Place(DataType type) {
    return static_cast<std::size_t>(type) % kPlaces;
  }

  ProductChoice of_[kPlaces];
};

// The forms of products of many rows that differ from that of few rows.
inline constexpr WideForm kWideForms[] = {WideForm::kBf16, WideForm::kOuter};
// "none" for kAsNarrow, "bf16", "outer".
const char* WideFormName(WideForm form);

// Whether the table can compute products of this form with weights of this type.
bool Supports(const KernelTable& table, DataType type, WideForm form);

// Products with f32 weights have one form by default, because models with f32 weights are compared
// within the smallest tolerance (docs/decisions/0035-choices-by-measuring.md).
ProductChoices DefaultChoices(const KernelTable& table);

}  // namespace kvd::kernels
