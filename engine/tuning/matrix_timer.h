// MatrixTimer: times products with the model's own matrices, in their mapping, on all compute
// threads.
//
// For each type of weights, the timer uses the matrices whose number of input features is the most
// common by bytes. A call computes a range of outputs of one matrix; the next call takes the next
// range, so that the weights of a product with few rows come from memory as in a step. Used on the
// engine thread, between steps. The object has its own rows of x and y, and uses the workspaces of
// the threads only during a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/forward/compute/compute.h"
#include "engine/forward/compute/linear.h"
#include "engine/model/gguf_file.h"
#include "engine/tuning/choice_measuring.h"

namespace kvd {

class MatrixTimer final : public ProductTimer {
 public:
  // Bounds of the part of a product that one call computes, for each thread, and of the elements of
  // x that one call prepares. A part of a product is also limited to about kSliceSeconds.
  static constexpr std::size_t kSliceProducts = std::size_t{64} << 20;
  static constexpr std::size_t kPreparedElements = std::size_t{128} << 10;
  static constexpr std::size_t kSliceBytes = std::size_t{1} << 20;
  static constexpr double kSliceSeconds = 1e-3;

  // compute: that of a pass whose workspaces suffice for in_features_max input features and the
  // rows of every timed product. The tensors outlive the timer. reads_weights: weights that are not
  // in memory are read before they are timed, which may take long; otherwise they are not timed.
  MatrixTimer(const Compute& compute, std::span<const GgufTensor> tensors,
              std::size_t in_features_max, bool reads_weights);

  // The types of the matrices, in the order of DataType's list.
  std::vector<kernels::DataType> types() const;
  bool Prepare(const TimedProduct& product) override;
  std::optional<double> Time(const TimedProduct& product) override;

 private:
  // The matrices of one type.
  struct Matrices {
    kernels::DataType type;
    std::size_t in_features;
    std::vector<const GgufTensor*> tensors;
    std::size_t tensor = 0;  // the next call's matrix and output
    std::size_t first_out = 0;
  };
  // The outputs of one product.
  struct Part {
    LinearView linear;
    std::size_t columns = 0;  // of each thread
  };

  Matrices* Find(kernels::DataType type);
  // The next outputs, `columns` for each thread or less if no matrix has so many.
  Part NextPart(Matrices& matrices, std::size_t columns) const;
  bool BringIn(const Part& part) const;
  // Computes the part; returns the seconds that it took.
  double Run(const Part& part, const TimedProduct& product, InputForm form);

  Compute compute_;
  const bool reads_weights_;
  std::vector<Matrices> matrices_;
  // The rows that are prepared, for one type and number of rows.
  const Matrices* prepared_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t ready_rows_ = 0;
  FloatBuffer x_;          // [rows, in_features]
  FloatBuffer quantized_;  // x in the form kQuantized
  FloatBuffer rounded_;    // x in the form kBf16
  FloatBuffer y_;          // [rows, y_stride_]
  std::size_t y_stride_ = 0;
  std::vector<float*> y_rows_;
};

}  // namespace kvd
