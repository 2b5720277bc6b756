// Any bytes as a model file: opened, every value read as every type, config, weights and
// fingerprint.
//
// Seeds: make_gguf_corpus DIRECTORY. Whatever the bytes, each step answers with a value or a named
// error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/gguf_file.h"
#include "engine/model_fingerprint.h"
#include "engine/model_tensors.h"
#include "engine/model_weights.h"
#include "shm/check.h"

namespace {

template <class T>
void ExpectNamed(const kvd::Result<T>& result) {
  KVD_ASSERT(result.has_value() || !result.error().message.empty());
}

void ReadAsEveryType(const kvd::GgufFile& file, std::string_view key) {
  ExpectNamed(file.GetU32(key));
  ExpectNamed(file.GetI32(key));
  ExpectNamed(file.GetU64(key));
  ExpectNamed(file.GetF32(key));
  ExpectNamed(file.GetBool(key));
  ExpectNamed(file.GetString(key));
  ExpectNamed(file.GetU32Array(key));
  ExpectNamed(file.GetI32Array(key));
  ExpectNamed(file.GetF32Array(key));
  ExpectNamed(file.GetBoolArray(key));
  ExpectNamed(file.GetStringArray(key));
}

// Reads the first and the last byte of each tensor, which a wrong bound would put outside the file.
class Toucher : public kvd::TensorVisitor {
 public:
  kvd::Status Matrix(const std::string&, std::uint64_t, std::uint64_t, kvd::Presence,
                     kvd::WeightView& bound) override {
    if (bound.data == nullptr) return {};
    std::size_t bytes = kvd::kernels::RowBytes(bound.type, bound.in_features) * bound.out_features;
    sum_ += std::to_integer<unsigned>(bound.data[0]);
    sum_ += std::to_integer<unsigned>(bound.data[bytes - 1]);
    return {};
  }
  kvd::Status MatrixStack(const std::string& name, std::uint64_t in_features,
                          std::uint64_t out_features, std::uint64_t, kvd::Presence presence,
                          kvd::WeightView& bound) override {
    return Matrix(name, in_features, out_features, presence, bound);
  }
  kvd::Status Floats(const std::string&, std::span<const std::uint64_t> dims, kvd::VectorRole,
                     kvd::Presence, const float*& bound) override {
    if (bound == nullptr) return {};
    std::uint64_t count = 1;
    for (std::uint64_t dim : dims) count *= dim;
    if (bound[0] > 0.0f) ++sum_;
    if (bound[count - 1] > 0.0f) ++sum_;
    return {};
  }
  kvd::Status Scale(const std::string&, float&) override { return {}; }
  kvd::Status Ignore(const std::string&) override { return {}; }
  // The parts are visited one by one.
  kvd::Result<bool> Fused(const std::string&, std::uint64_t,
                          std::span<const kvd::FusedPart>) override {
    return false;
  }
  unsigned sum() const { return sum_; }

 private:
  unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  auto file = kvd::GgufFile::FromBytes(std::as_bytes(std::span(data, bytes)));
  ExpectNamed(file);
  if (!file) return 0;
  for (const kvd::GgufEntry& entry : file->entries()) ReadAsEveryType(*file, entry.key);
  auto config = kvd::ReadModelConfig(*file);
  ExpectNamed(config);
  if (!config) return 0;
  auto weights = kvd::BindWeights(*file, *config);
  ExpectNamed(weights);
  if (!weights) return 0;
  Toucher toucher;
  KVD_ASSERT(kvd::VisitTensors(*config, toucher, *weights).has_value());
  // Always true: uses what was read.
  KVD_ASSERT(toucher.sum() != ~0u);
  KVD_ASSERT(kvd::ComputeFingerprint(*file, *config).ToHex().size() == 64);
  return 0;
}
