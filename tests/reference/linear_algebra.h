// Operations of a forward pass in double precision, in the order in which the papers define them.
// The operations of this header do not use the engine's kernels.
//
// The functions are pure and may be called on any thread.
#pragma once

#include <cstddef>
#include <vector>

namespace kvd::reference {

using Vector = std::vector<double>;

struct Matrix {
  std::size_t rows = 0;  // output features
  std::size_t columns = 0;
  Vector values;  // [rows, columns]

  double operator()(std::size_t row, std::size_t column) const {
    return values[row * columns + column];
  }
  Vector Row(std::size_t row) const;
};

// REQUIRES for all operators and functions below: the sizes of the operands match.
Vector operator*(const Matrix& matrix, const Vector& x);
Vector TransposedProduct(const Matrix& matrix, const Vector& x);
Vector operator+(const Vector& a, const Vector& b);
Vector operator*(double factor, const Vector& x);
Vector ElementwiseProduct(const Vector& a, const Vector& b);
double Dot(const Vector& a, const Vector& b);

// Returns the elements [first, first + count) of x.
Vector Slice(const Vector& x, std::size_t first, std::size_t count);
Vector Join(const Vector& a, const Vector& b);

// Returns weight * x / sqrt(mean of squares of x + epsilon) (Zhang and Sennrich 2019).
Vector RmsNorm(const Vector& x, const Vector& weight, double epsilon);
// Returns weight * (x - mean) / sqrt(variance + epsilon) + bias (Ba et al. 2016). An empty bias
// counts as 0.
Vector LayerNorm(const Vector& x, const Vector& weight, const Vector& bias, double epsilon);
Vector Softmax(const Vector& scores);

double Relu(double x);  // max(0, x)
double Sigmoid(double x);
double Silu(double x);      // x * sigmoid(x)
double Softplus(double x);  // ln(1 + e^x)
double Gelu(double x);      // approximated with tanh (Hendrycks and Gimpel 2016)
// Rounds x to half precision and returns its Gelu rounded to half precision. Beyond 10, returns x
// without rounding; below -10, returns 0. docs/decisions/0007 explains why the models use this
// form.
double GeluOfHalves(double x);
Vector Map(double (*function)(double), const Vector& x);

}  // namespace kvd::reference
