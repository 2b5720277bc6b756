// Any bytes as a model file: opened, every value read as every type, vocabulary, config, weights
// and fingerprint.
//
// Oracle: whatever the bytes, each step answers with a value or a named error; a vocabulary that was
// made cuts a text into its own tokens. Seeds: make_gguf_corpus DIRECTORY.
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

#include "engine/gguf_file.h"
#include "engine/model_fingerprint.h"
#include "engine/model_tensors.h"
#include "engine/model_weights.h"
#include "engine/vocabulary/read_vocabulary.h"
#include "engine/vocabulary/vocabulary.h"
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

// Aligned as a mapped file is, and without room behind it: GgufFile's own copy has some, in which
// AddressSanitizer would not see what is read too far.
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

// The text has what tokenizers look at: spaces, marks, an accent, a special token.
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
  // Always true: uses what was read.
  KVD_ASSERT(toucher.sum() != ~0u);
  KVD_ASSERT(kvd::ComputeFingerprint(*file, *config).ToHex().size() == 64);
  return 0;
}
