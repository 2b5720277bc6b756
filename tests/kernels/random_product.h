// A matrix product with random operands, which tests compute with every kernel table.
#pragma once

#include <memory>
#include <vector>

#include "kernels/panels.h"
#include "kernels/product_choice.h"
#include "kernels/quantized_row.h"
#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels {

inline constexpr float kUntouched = 77.0f;
inline constexpr std::array kPlainTypes = {DataType::kF32, DataType::kF16, DataType::kBF16};

// The product of weights [out_features, in_features] and x [row_count, in_features], with a row
// stride of in_features + 3.
struct RandomProduct {
  RandomProduct(Numbers* numbers, DataType weight_type, std::size_t n, std::size_t outs,
                std::size_t rows)
      : type(weight_type), in_features(n), out_features(outs), row_count(rows), x_stride(n + 3) {
    for (std::size_t o = 0; o < outs; ++o) {
      const std::vector<std::uint8_t> row = numbers->WeightRow(type, n);
      weights.insert(weights.end(), row.begin(), row.end());
    }
    x = numbers->Row(rows == 0 ? 0 : (rows - 1) * x_stride + n);
  }

  // Computes up to `rows` rows from first_row on. Returns y [rows, out_features], in which the
  // outputs outside [first, last) are kUntouched. in_bf16: passes rows rounded to bf16 to the
  // kernel if the type and the table support products in bf16.
  std::vector<float> Run(const KernelTable& table, std::size_t first, std::size_t last,
                         bool in_bf16 = false, std::size_t first_row = 0,
                         std::size_t rows = SIZE_MAX) const {
    rows = std::min(rows, row_count - first_row);
    const Misaligned<std::uint8_t> unaligned_weights(weights, type == DataType::kF32 ? 4 : 2);
    const Misaligned<float> unaligned_x(x, 4);
    std::vector<float> y(rows * out_features, kUntouched);
    std::vector<float*> y_rows(rows);
    for (std::size_t r = 0; r < rows; ++r) y_rows[r] = y.data() + r * out_features;
    const std::size_t workspace_floats = MatmulWorkspaceFloats(in_features, rows);
    std::vector<float> storage(workspace_floats + 16, NAN);
    void* workspace = storage.data();
    std::size_t space = storage.size() * sizeof(float);
    workspace = std::align(64, workspace_floats * sizeof(float), workspace, space);
    const auto quantized = Quantized(table, unaligned_x.get() + first_row * x_stride, rows);
    const auto rounded =
        in_bf16 ? Rounded(table, unaligned_x.get() + first_row * x_stride, rows) : nullptr;
    table.matmul({.weight_type = type,
                  .weights = unaligned_weights.get(),
                  .in_features = in_features,
                  .x = unaligned_x.get() + first_row * x_stride,
                  .x_stride = x_stride,
                  .quantized_x = quantized.get(),
                  .bf16_x = rounded.get(),
                  .row_count = rows,
                  .y = y_rows.data(),
                  .first_out = first,
                  .last_out = last,
                  .workspace = static_cast<float*>(workspace),
                  .outer_products = in_outer,
                  .ahead_bytes = ahead_bytes,
                  .panel_from_rows = panel_from_rows,
                  .panel_outs = panel_outs});
    return y;
  }

  // Returns rows of x quantised by the table; null if the weight type does not use them.
  AlignedBytes Quantized(const KernelTable& table, const float* from, std::size_t rows) const {
    if (!IsQuantized(type)) return nullptr;
    AlignedBytes bytes = MakeAlignedBytes(rows * QuantizedRowBytes(in_features));
    table.quantize_rows(from, x_stride, rows, in_features, bytes.get());
    return bytes;
  }

  // Returns rows of x rounded to bf16 by the table; null if the weight type or the table has no
  // products in bf16.
  AlignedBytes Rounded(const KernelTable& table, const float* from, std::size_t rows) const {
    if (!Supports(table, type, WideForm::kBf16)) return nullptr;
    AlignedBytes bytes = MakeAlignedBytes(rows * Bf16RowBytes(in_features));
    table.round_rows(from, x_stride, rows, in_features, bytes.get());
    return bytes;
  }

  DataType type;
  std::size_t in_features, out_features, row_count, x_stride;
  std::vector<std::uint8_t> weights;
  std::vector<float> x;
  bool in_outer = false;
  std::uint32_t ahead_bytes = 0, panel_from_rows = 0, panel_outs = 0;
};

}  // namespace kvd::kernels
