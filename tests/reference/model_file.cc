#include "tests/reference/model_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace kvd::reference {
namespace {

template <class T>
T Require(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

// Decodes an IEEE 754 half-precision number: 1 sign bit, 5 exponent bits, 10 fraction bits.
double FromHalf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

// Decodes q8_0 blocks: a scale (f16) followed by 32 signed bytes that are multiplied by it.
Vector DecodeQ8(const std::byte* data, std::size_t element_count) {
  constexpr std::size_t kBlockElements = 32, kScaleBytes = 2;
  Vector values;
  for (std::size_t i = 0; i < element_count; i += kBlockElements) {
    std::uint16_t scale;
    std::memcpy(&scale, data, kScaleBytes);
    data += kScaleBytes;
    for (std::size_t element = 0; element < kBlockElements; ++element) {
      values.push_back(FromHalf(scale) * static_cast<std::int8_t>(*data++));
    }
  }
  return values;
}

Vector DecodeF32(const std::byte* data, std::size_t element_count) {
  std::vector<float> floats(element_count);
  std::memcpy(floats.data(), data, element_count * sizeof(float));
  return {floats.begin(), floats.end()};
}

Vector Decode(const GgufTensor& tensor) {
  const std::size_t element_count =
      tensor.dims[0] * tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
  switch (tensor.type) {
    case kernels::DataType::kF32: return DecodeF32(tensor.data, element_count);
    case kernels::DataType::kQ8_0: return DecodeQ8(tensor.data, element_count);
    default: throw std::runtime_error(std::string(tensor.name) + ": neither f32 nor q8_0");
  }
}

}  // namespace

ModelFile::ModelFile(const GgufFile& file)
    : file_(file), architecture_(Require(file.GetString("general.architecture"))) {}

Matrix ModelFile::ReadMatrix(const std::string& tensor) const {
  const GgufTensor* found = file_.FindTensor(tensor);
  if (found == nullptr) throw std::runtime_error(tensor + ": no such tensor");
  return {.rows = found->dims[1], .columns = found->dims[0], .values = Decode(*found)};
}

Vector ModelFile::ReadVector(const std::string& tensor) const { return ReadMatrix(tensor).values; }

std::vector<Matrix> ModelFile::ReadMatrices(const std::string& tensor) const {
  const GgufTensor* found = file_.FindTensor(tensor);
  if (found == nullptr) throw std::runtime_error(tensor + ": no such tensor");
  const Vector values = Decode(*found);
  const std::size_t rows = found->dims[1], columns = found->dims[0];
  std::vector<Matrix> matrices;
  for (std::size_t first = 0; first < values.size(); first += rows * columns) {
    matrices.push_back(
        {.rows = rows, .columns = columns, .values = Slice(values, first, rows * columns)});
  }
  return matrices;
}

std::size_t ModelFile::Count(const std::string& key) const {
  return Require(file_.GetU32(architecture_ + "." + key));
}

std::size_t ModelFile::CountOr(const std::string& key, std::size_t fallback) const {
  return file_.Has(architecture_ + "." + key) ? Count(key) : fallback;
}

double ModelFile::Real(const std::string& key) const {
  return static_cast<double>(Require(file_.GetF32(architecture_ + "." + key)));
}

double ModelFile::RealOr(const std::string& key, double fallback) const {
  return file_.Has(architecture_ + "." + key) ? Real(key) : fallback;
}

std::size_t ModelFile::CountOfLayer(const std::string& key, std::size_t layer) const {
  const GgufEntry* entry = file_.FindEntry(architecture_ + "." + key);
  if (entry == nullptr || entry->type != GgufType::kArray) return Count(key);
  return Require(file_.GetU32Array(entry->key)).at(layer);
}

bool ModelFile::FlagOfLayer(const std::string& key, std::size_t layer) const {
  return Require(file_.GetBoolArray(architecture_ + "." + key)).at(layer);
}

}  // namespace kvd::reference
