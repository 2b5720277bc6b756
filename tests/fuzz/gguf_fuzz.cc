// Opens any bytes as a model file, reads every value as every type, and reads the vocabulary, the
// config, the weights and the fingerprint.
//
// Oracle: for any bytes, each step returns a value or a named error; a vocabulary that was created
// splits a text into tokens of that vocabulary. Seeds: make_corpus gguf FOLDER.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_format.h"
#include "engine/model/model_weights.h"
#include "engine/vocabulary/vocabulary.h"
#include "engine/vocabulary/vocabulary_data.h"

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
  ExpectNamed(file.GetU32Or(key, 1));
  ExpectNamed(file.GetI32Or(key, 1));
  ExpectNamed(file.GetU64Or(key, 1));
  ExpectNamed(file.GetF32Or(key, 1));
  ExpectNamed(file.GetBoolOr(key, true));
  ExpectNamed(file.GetStringOr(key, "x"));
  ExpectNamed(file.GetArrayCount(key));
  ExpectNamed(file.GetBool(key));
  ExpectNamed(file.GetString(key));
  ExpectNamed(file.GetU32Array(key));
  ExpectNamed(file.GetI32Array(key));
  ExpectNamed(file.GetF32Array(key));
  ExpectNamed(file.GetBoolArray(key));
  ExpectNamed(file.GetStringArray(key));
}

// A copy of the input that is aligned like a mapped file and has no bytes after its end, so that
// AddressSanitizer detects a read too far. GgufFile's own copy has readable bytes after its end.
class AlignedCopy {
 public:
  explicit AlignedCopy(std::span<const std::byte> bytes) : byte_count_(bytes.size()) {
    constexpr std::size_t kAlignment = 64;
    void* copy = nullptr;
    KVD_ASSERT(::posix_memalign(&copy, kAlignment, std::max<std::size_t>(byte_count_, 1)) == 0);
    copy_.reset(static_cast<std::byte*>(copy));
    if (!bytes.empty()) std::memcpy(copy, bytes.data(), byte_count_);
  }
  std::span<const std::byte> bytes() const { return {copy_.get(), byte_count_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::size_t byte_count_;
  std::unique_ptr<std::byte, Free> copy_;
};

// Reads the vocabulary and tokenizes a text with spaces, punctuation, an accent and special tokens.
void ReadVocabularyOf(const kvd::GgufFile& file) {
  constexpr std::string_view kText = " Hello,  caf\u00e9 <s>'s\n42 ABq\t<mask> x";
  auto data = kvd::ReadVocabulary(file);
  ExpectNamed(data);
  if (!data) return;
  const auto vocabulary = kvd::Vocabulary::Create(std::move(*data));
  ExpectNamed(vocabulary);
  if (!vocabulary) return;
  const auto tokens = (*vocabulary)->Tokenize(kText, {.add_special = true, .parse_special = true});
  ExpectNamed(tokens);
  if (!tokens) return;
  ExpectNamed((*vocabulary)->Detokenize(*tokens, {.unparse_special = true}));
  for (const kvd::TokenId token : *tokens) KVD_ASSERT((*vocabulary)->Contains(token));
}

// Reads the first and the last byte of each tensor. If a tensor's bounds were wrong,
// AddressSanitizer would detect the read outside the file.
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
  kvd::Status IgnoreAll(const std::string&) override { return {}; }
  // False: the visitor is called for each part instead of the fused tensor.
  kvd::Result<bool> Fused(const std::string&, std::uint64_t,
                          std::span<const kvd::FusedPart>) override {
    return false;
  }
  // The experts' matrices, which are bound one by one.
  void TouchExperts(const kvd::ExpertMatrices& matrices) {
    const std::size_t row_bytes =
        kvd::kernels::RowBytes(matrices.shape.type, matrices.shape.in_features);
    for (const std::byte* data : matrices.data) {
      sum_ += std::to_integer<unsigned>(data[0]);
      sum_ += std::to_integer<unsigned>(data[row_bytes * matrices.shape.out_features - 1]);
    }
  }
  unsigned sum() const { return sum_; }

 private:
  unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const AlignedCopy copy(std::as_bytes(std::span(data, bytes)));
  auto file = kvd::GgufFile::FromStaticBytes(copy.bytes());
  ExpectNamed(file);
  if (!file) return 0;
  for (const kvd::GgufEntry& entry : file->entries()) ReadAsEveryType(*file, entry.key);
  ReadVocabularyOf(*file);
  auto config = kvd::ReadModelConfig(*file);
  ExpectNamed(config);
  if (!config) return 0;
  auto weights = kvd::BindWeights(*file, *config);
  ExpectNamed(weights);
  if (!weights) return 0;
  Toucher toucher;
  KVD_ASSERT(kvd::VisitTensors(*config, toucher, *weights).has_value());
  for (const kvd::LayerWeights& layer : weights->layers) {
    for (const auto* matrices : {&layer.experts.gate, &layer.experts.up, &layer.experts.down}) {
      toucher.TouchExperts(*matrices);
    }
  }
  // The assertion always holds; it uses the sum of the read bytes, so that the compiler does not
  // remove the reads.
  KVD_ASSERT(toucher.sum() != ~0u);
  KVD_ASSERT(kvd::ComputeFingerprint(*file, *config).ToHex().size() == 64);
  return 0;
}
