// Visits the architecture's tensors once. Each tensor is found by its name, compared with the shape
// that the config requires and marked as used. A tensor that is not used at the end is an error,
// because its effect would otherwise be omitted silently.
#include "engine/model/model_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/text.h"
#include "engine/model/model_format.h"

namespace kvd {
namespace {

using kernels::DataType;

// At least two dimensions are shown: a vector is a matrix of one row.
std::string ShapeText(std::span<const std::uint64_t, 4> dims) {
  std::size_t rank = 4;
  while (rank > 2 && dims[rank - 1] == 1) --rank;
  std::string text = Concat("[", dims[0]);
  for (std::size_t d = 1; d < rank; ++d) text += Concat(", ", dims[d]);
  return text + "]";
}

class Binder : public TensorVisitor {
 public:
  explicit Binder(const GgufFile& file) : file_(file), used_(file.tensors().size(), false) {}

  Status Matrix(const std::string& name, std::uint64_t in_features, std::uint64_t out_features,
                Presence presence, WeightView& target) override {
    return MatrixStack(name, in_features, out_features, 1, presence, target);
  }

  Status MatrixStack(const std::string& name, std::uint64_t in_features, std::uint64_t out_features,
                     std::uint64_t count, Presence presence, WeightView& target) override {
    const std::array dims = {in_features, out_features, count};
    KVD_TRY(const GgufTensor* tensor,
            Use(name, std::span(dims).first(count == 1 ? 2 : 3), presence));
    if (tensor == nullptr) return {};
    target = {tensor->type, in_features, out_features * count, tensor->data};
    in_features_max_ = std::max<std::size_t>(in_features_max_, in_features);
    return {};
  }

  Status Floats(const std::string& name, std::span<const std::uint64_t> dims, VectorRole role,
                Presence presence, const float*& target) override {
    KVD_TRY(const GgufTensor* tensor, Use(name, dims, presence));
    if (tensor == nullptr) return {};
    if (tensor->type != DataType::kF32) {
      return Fail(Code::kUnsupported, "tensor ", name, ": must be f32, is ",
                  kernels::DataTypeName(tensor->type));
    }
    target = reinterpret_cast<const float*>(tensor->data);
    if (role != VectorRole::kRopeFactors && role != VectorRole::kLongRopeFactors) return {};
    for (std::uint64_t i = 0; i < dims[0]; ++i) {
      // Angles are divided by the rope factors, so a factor must be finite and not 0.
      if (!std::isfinite(target[i]) || target[i] == 0.0f) {
        return Fail(Code::kCorrupt, "tensor ", name, ": element ", i, " is ", target[i],
                    ", must be finite and not 0");
      }
    }
    return {};
  }

  Status Scale(const std::string& name, float& target) override {
    const float* scale = nullptr;
    KVD_CHECK_OK(Vector(name, 1, VectorRole::kBias, Presence::kOptional, scale));
    if (scale == nullptr) return {};
    if (!std::isfinite(*scale)) return Fail(Code::kCorrupt, "tensor ", name, ": not finite");
    target = *scale;
    return {};
  }

  Status Ignore(const std::string& name) override {
    if (const GgufTensor* tensor = file_.FindTensor(name)) MarkUsed(tensor);
    return {};
  }

  Status IgnoreAll(const std::string& prefix) override {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with(prefix)) MarkUsed(&tensor);
    }
    return {};
  }

  bool Has(const std::string& name) const override { return file_.FindTensor(name) != nullptr; }

  Result<bool> Fused(const std::string& name, std::uint64_t in_features,
                     std::span<const FusedPart> parts) override {
    if (file_.FindTensor(name + ".weight") == nullptr) return false;
    std::uint64_t out_features = 0;
    for (const FusedPart& part : parts) out_features += part.out_features;
    LinearView whole;
    KVD_CHECK_OK(
        Matrix(name + ".weight", in_features, out_features, Presence::kRequired, whole.weight));
    KVD_CHECK_OK(
        Vector(name + ".bias", out_features, VectorRole::kBias, Presence::kOptional, whole.bias));
    KVD_CHECK_OK(Scale(name + ".scale", whole.scale));
    KVD_CHECK_OK(Ignore(name + ".input_scale"));
    std::uint64_t row = 0;
    std::size_t row_bytes = kernels::RowBytes(whole.weight.type, in_features);
    for (const FusedPart& part : parts) {
      *part.target = whole;
      part.target->weight.out_features = part.out_features;
      part.target->weight.data += row * row_bytes;
      if (whole.bias != nullptr) part.target->bias = whole.bias + row;
      row += part.out_features;
    }
    return true;
  }

  std::size_t in_features_max() const { return in_features_max_; }

  // Errors: kCorrupt (the file has a tensor that was not visited).
  Status CheckAllUsed() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      return Fail(Code::kCorrupt, "tensor ", file_.tensors()[i].name,
                  ": unknown to this architecture, or of a layer that the model does not have");
    }
    return {};
  }

 private:
  void MarkUsed(const GgufTensor* tensor) {
    used_[static_cast<std::size_t>(tensor - file_.tensors().data())] = true;
  }

  // Finds the tensor `name` and checks the tensor's shape; dimensions beyond those in `wanted` must
  // be 1. Returns null if the tensor is optional and missing.
  Result<const GgufTensor*> Use(const std::string& name, std::span<const std::uint64_t> wanted,
                                Presence presence) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      if (presence == Presence::kOptional) return nullptr;
      return Fail(Code::kNotFound, "tensor ", name, ": missing from the file");
    }
    std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};
    std::ranges::copy(wanted, dims.begin());
    if (tensor->dims != dims) {
      return Fail(Code::kCorrupt, "tensor ", name, ": shape ", ShapeText(tensor->dims),
                  ", must be ", ShapeText(dims));
    }
    MarkUsed(tensor);
    return tensor;
  }

  const GgufFile& file_;
  std::vector<bool> used_;
  std::size_t in_features_max_ = 0;
};

}  // namespace

Result<ModelWeights> BindWeights(const GgufFile& file, const ModelConfig& config) {
  ModelWeights weights;
  Binder binder(file);
  KVD_CHECK_OK(VisitTensors(config, binder, weights));
  KVD_CHECK_OK(binder.CheckAllUsed());
  weights.in_features_max = binder.in_features_max();
  return weights;
}

}  // namespace kvd
