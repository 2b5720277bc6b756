#include "tools/make_model/architecture_metadata.h"

#include <vector>

namespace kvd {
namespace {

// 0 for the recurrent layers.
std::vector<std::uint32_t> KvHeadsOfHybrid(const ModelShape& shape) {
  std::vector<std::uint32_t> kv_heads(shape.layers, 0);
  for (std::uint32_t layer = 1; layer < shape.layers; layer += 2) kv_heads[layer] = shape.kv_heads;
  return kv_heads;
}

}  // namespace

void AddArchitectureMetadata(const ModelShape& shape, const std::string& prefix,
                             GgufWriter& writer) {
  if (shape.architecture == Architecture::kLfm2) {
    writer.AddU32Array(prefix + "attention.head_count_kv", KvHeadsOfHybrid(shape));
    writer.AddU32(prefix + "shortconv.l_cache", shape.convolution_width);
    return;
  }
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
}

}  // namespace kvd
