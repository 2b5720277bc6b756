#include "engine/model/numeric_form.h"

#include <algorithm>
#include <string_view>

namespace kvd {

const char* NumericFormText(NumericForm form) {
  switch (form) {
    case NumericForm::kFree: return "no single form (computed without --deterministic)";
    case NumericForm::kFloat32: return "products of f32";
    case NumericForm::kBf16Pairs: return "products of bf16 in pairs (avx512)";
    case NumericForm::kBf16Tiles: return "products of bf16 in tiles (amx)";
  }
  return "an unknown form";
}

NumericForm NumericFormOf(const GgufFile& model, const kernels::KernelTable& table,
                          bool deterministic) {
  if (!deterministic) return NumericForm::kFree;
  // Matrices that are only looked up, such as some token embeddings, count too. A distinction
  // between looked-up and multiplied matrices would need a list of tensors and gain little.
  const bool has_halves = std::ranges::any_of(model.tensors(), [](const GgufTensor& tensor) {
    return tensor.rank > 1 &&
           (tensor.type == kernels::DataType::kF16 || tensor.type == kernels::DataType::kBF16);
  });
  if (!has_halves || table.round_rows == nullptr) return NumericForm::kFloat32;
  return std::string_view(table.name) == "amx" ? NumericForm::kBf16Tiles : NumericForm::kBf16Pairs;
}

}  // namespace kvd
