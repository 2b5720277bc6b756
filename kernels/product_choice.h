// The choices among the forms of matrix products: one ProductChoice for each type of weights.
//
// A choice changes the speed of a product and, without --deterministic, the bits of its results
// within the golden tolerances. With --deterministic the forms of kernels/kernel_table.h do not
// depend on any choice. DefaultChoices holds the choices that a kernel table makes; an engine may
// replace them by measured choices before a step, never during a step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data_type.h"

namespace kvd::kernels {

struct KernelTable;

// The form of a product of many rows.
enum class WideForm : std::uint8_t {
  kAsNarrow = 0,  // the form of a product of few rows: f32, or integers for quantised weights
  kBf16 = 1,      // weights and x rounded to bf16
};

struct ProductChoice {
  WideForm wide_form = WideForm::kAsNarrow;
  std::uint32_t wide_from_rows = 0;  // a product of at least so many rows has wide_form

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

// Whether the table can compute products of this form with weights of this type.
bool Supports(const KernelTable& table, DataType type, WideForm form);

ProductChoices DefaultChoices(const KernelTable& table);

}  // namespace kvd::kernels
