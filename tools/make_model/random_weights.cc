#include "tools/make_model/random_weights.h"

#include <algorithm>

#include "tools/make_model/quantize.h"

namespace kvd {
namespace {

constexpr std::size_t kPoolElements = 1u << 18;
// The elements of the longest block. In the pool, tensors begin at multiples of kUnitElements.
constexpr std::uint64_t kUnitElements = 256;

}  // namespace

RandomWeights::RandomWeights(std::uint64_t seed) : state_(seed) {
  normal_.resize(kPoolElements);
  for (float& number : normal_) number = NextNormal();
}

std::uint64_t RandomWeights::Next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

float RandomWeights::NextNormal() {
  // The result is the sum of four uniform 16-bit numbers minus the mean of that sum. Unlike
  // std::normal_distribution, this method gives the same numbers on every machine.
  std::uint64_t bits = Next();
  std::int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int32_t>((bits >> (16 * i)) & 0xffff);
  constexpr float kDeviation = 37837.2f;  // standard deviation of the sum: 65536 * sqrt(4 / 12)
  return (static_cast<float>(sum) - 131070.0f) / kDeviation;
}

const std::vector<std::byte>& RandomWeights::Pool(kernels::DataType type, float deviation) {
  auto [at, is_new] = encoded_.try_emplace({type, deviation});
  if (is_new) {
    std::vector<float> scaled(normal_);
    for (float& number : scaled) number *= deviation;
    at->second = Quantize(type, scaled);
  }
  return at->second;
}

Status RandomWeights::Matrix(kernels::DataType type, std::uint64_t element_count, float deviation,
                             GgufSink& sink) {
  const std::vector<std::byte>& pool = Pool(type, deviation);
  constexpr std::uint64_t kPoolUnits = kPoolElements / kUnitElements;
  std::size_t unit_bytes = kernels::RowBytes(type, kUnitElements);
  for (std::uint64_t left = kernels::RowBytes(type, element_count); left > 0;) {
    std::uint64_t first = Next() % kPoolUnits;
    std::uint64_t units = 1 + Next() % (kPoolUnits - first);
    std::uint64_t bytes = std::min<std::uint64_t>(left, units * unit_bytes);
    KVD_CHECK_OK(sink.Append(std::span(pool).subspan(first * unit_bytes, bytes)));
    left -= bytes;
  }
  return {};
}

Status RandomWeights::Vector(std::uint64_t element_count, float mean, float deviation,
                             GgufSink& sink) {
  std::vector<float> values(element_count);
  for (float& value : values) value = mean + deviation * NextNormal();
  return sink.Append(std::as_bytes(std::span(values)));
}

}  // namespace kvd
