// Any bytes as a model file: opened, every value read as every type, config, weights and
// fingerprint.
//
// Seeds: make_gguf_corpus DIRECTORY. Whatever the bytes, each step answers with a value or a named
// error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/gguf_file.h"
#include "engine/model_fingerprint.h"
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

// Reads the first and the last byte of each matrix, which a wrong bound would put outside the file.
unsigned Touch(const kvd::WeightView& view) {
  std::size_t bytes = kvd::kernels::RowBytes(view.type, view.in_features) * view.out_features;
  return std::to_integer<unsigned>(view.data[0]) + std::to_integer<unsigned>(view.data[bytes - 1]);
}

unsigned Touch(const kvd::LinearView& view) {
  unsigned sum = Touch(view.weight);
  if (view.bias != nullptr && view.bias[view.weight.out_features - 1] > 0.0f) ++sum;
  return sum;
}

unsigned Touch(const kvd::ModelWeights& weights) {
  unsigned sum = Touch(weights.token_embedding) + Touch(weights.output);
  for (const kvd::LayerWeights& layer : weights.layers) {
    for (const kvd::LinearView* view :
         {&layer.q, &layer.k, &layer.v, &layer.attn_out, &layer.gate, &layer.up, &layer.down}) {
      sum += Touch(*view);
    }
  }
  return sum;
}

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
  // Always true: uses what was read.
  KVD_ASSERT(Touch(*weights) != ~0u);
  KVD_ASSERT(kvd::ComputeFingerprint(*file, *config).ToHex().size() == 64);
  return 0;
}
