#include "tests/reference/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvd::reference {

Vector Matrix::Row(std::size_t row) const { return Slice(values, row * columns, columns); }

Vector operator*(const Matrix& matrix, const Vector& x) {
  Vector y(matrix.rows, 0.0);
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    for (std::size_t column = 0; column < matrix.columns; ++column) {
      y[row] += matrix(row, column) * x[column];
    }
  }
  return y;
}

Vector TransposedProduct(const Matrix& matrix, const Vector& x) {
  Vector y(matrix.columns, 0.0);
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    y = y + x[row] * matrix.Row(row);
  }
  return y;
}

Vector operator+(const Vector& a, const Vector& b) {
  Vector sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

Vector operator*(double factor, const Vector& x) {
  Vector scaled(x);
  for (double& element : scaled) element *= factor;
  return scaled;
}

Vector ElementwiseProduct(const Vector& a, const Vector& b) {
  Vector product(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) product[i] = a[i] * b[i];
  return product;
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector Slice(const Vector& x, std::size_t first, std::size_t count) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Vector Join(const Vector& a, const Vector& b) {
  Vector joined(a);
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

Vector RmsNorm(const Vector& x, const Vector& weight, double epsilon) {
  const double mean_square = Dot(x, x) / static_cast<double>(x.size());
  return ElementwiseProduct(weight, (1.0 / std::sqrt(mean_square + epsilon)) * x);
}

Vector LayerNorm(const Vector& x, const Vector& weight, const Vector& bias, double epsilon) {
  const auto count = static_cast<double>(x.size());
  double mean = 0;
  for (const double element : x) mean += element / count;
  Vector centred;
  for (const double element : x) centred.push_back(element - mean);
  const double variance = Dot(centred, centred) / count;
  const Vector normed = ElementwiseProduct(weight, (1.0 / std::sqrt(variance + epsilon)) * centred);
  return bias.empty() ? normed : normed + bias;
}

Vector Softmax(const Vector& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  Vector shares;
  double sum = 0;
  for (const double score : scores) {
    shares.push_back(std::exp(score - largest));
    sum += shares.back();
  }
  return (1.0 / sum) * shares;
}

double Relu(double x) { return std::max(0.0, x); }

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double Silu(double x) { return x * Sigmoid(x); }

double Softplus(double x) { return std::log1p(std::exp(x)); }

double Gelu(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

namespace {

// Rounds to IEEE half precision: to 11 significant bits, and below 2^-14 to a multiple of 2^-24.
// Ties are rounded to even. REQUIRES: x is in the range of half precision.
double RoundToHalf(double x) {
  int exponent = 0;
  (void)std::frexp(x, &exponent);
  const int unit = std::max(exponent - 11, -24);
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

}  // namespace

double GeluOfHalves(double x) {
  constexpr double kBound = 10;
  if (std::abs(x) > kBound) return x < 0 ? 0 : x;
  return RoundToHalf(Gelu(RoundToHalf(x)));
}

Vector Map(double (*function)(double), const Vector& x) {
  Vector y;
  for (const double element : x) y.push_back(function(element));
  return y;
}

}  // namespace kvd::reference
