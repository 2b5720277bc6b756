// LFM2 (Liquid AI 2025). The mixer is attention in layers that have KV heads, and a gated short
// convolution in the other layers: B, C, u = In x; Mixer = Out (C * Convolution(B * u)). The weight
// of the last norm is named token_embd_norm.
#include "tests/reference/attention.h"
#include "tests/reference/convolution.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {
namespace {

struct ShortConvolution {
  Matrix in, out;
  Convolution convolution;

  static ShortConvolution Read(const ModelFile& file, std::size_t layer) {
    const std::string block = BlockName(layer) + "shortconv.";
    return {.in = file.ReadMatrix(block + "in_proj.weight"),
            .out = file.ReadMatrix(block + "out_proj.weight"),
            .convolution = {.taps = file.ReadMatrix(block + "conv.weight"), .bias = {}}};
  }

  Vector operator()(const Vector& x, RecurrentState& state) const {
    const Vector gates = in * x;
    const Vector b = Slice(gates, 0, x.size());
    const Vector c = Slice(gates, x.size(), x.size());
    const Vector u = Slice(gates, 2 * x.size(), x.size());
    return out * ElementwiseProduct(c, convolution(ElementwiseProduct(b, u), state));
  }
};

}  // namespace

std::unique_ptr<Model> ReadLfm2(const ModelFile& file) {
  const auto read_parts = [&](std::size_t layer) {
    LayerParts parts{.mixer = {}, .feed_forward = FeedForward::Read(file, BlockName(layer))};
    if (file.CountOfLayer("attention.head_count_kv", layer) != 0) {
      Attention attention = Attention::Read(file, layer);
      attention.rotation = {.pairs = Pairs::kHalves, .base = file.Real("rope.freq_base")};
      parts.mixer = attention;
    } else {
      parts.mixer = MixerOf(ShortConvolution::Read(file, layer));
    }
    return parts;
  };
  return ReadResidualModel(file, read_parts, "token_embd_norm.weight");
}

}  // namespace kvd::reference
