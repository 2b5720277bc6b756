// Reads the numbers of attention layers: heads, lengths and rotation.
#pragma once

#include "base/error.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"

namespace kvd {

// Which layers have attention: all of them, or those with at least one KV head (hybrid models).
enum class HeadRule : std::uint8_t { kEveryLayer, kLayersWithKvHeads };

// Reads head_count, kv_head_count and layer_kind. REQUIRES: layer_count is read.
Status ReadHeadCounts(const ConfigReader& reader, HeadRule rule, ModelConfig& config);

// Calls ReadHeadCounts and also reads head_dim_k, head_dim_v and attention_scale. REQUIRES:
// embedding_size and layer_count are read.
Status ReadHeads(const ConfigReader& reader, HeadRule rule, ModelConfig& config);

// Reads config.rope and sets config.window_rope to the same values. REQUIRES: context_length and
// head_dim_k are read.
Status ReadRope(const ConfigReader& reader, bool interleaved, ModelConfig& config);

// Reads rope.sections; their sum is 1 to head_dim_k. REQUIRES: ReadRope was called.
Status ReadRopeSections(const ConfigReader& reader, ModelConfig& config);

inline constexpr std::uint32_t kWindowMax = 0x7fff'ffff;  // positions that a window may have

// Sets the window of each layer according to "attention.sliding_window_pattern". The value is
// either a list with one bool per layer (true: the layer has the window), or a period N: the last
// of every N layers has no window (0: all layers have a window; 1: no layer has a window).
// period_default applies if the key is missing.
Status ReadWindows(const ConfigReader& reader, std::uint32_t window, std::uint32_t period_default,
                   ModelConfig& config);

// Reads window_head_dim and window_rope.rotated_dim, for models whose windowed layers have heads of
// their own length. REQUIRES: ReadRope was called.
Status ReadWindowHeads(const ConfigReader& reader, ModelConfig& config);

// Sets cell_layer: layers from `first` on read the cells of layer first - 2 if they have a window,
// and those of layer first - 1 otherwise. Errors: kCorrupt (a layer and the layer whose cells it
// would read differ). REQUIRES: first is at least 2; heads and windows are read.
Status ShareCellsFrom(const ConfigReader& reader, std::uint32_t first, ModelConfig& config);

// Sets window_rope to a copy of rope with this scale and with the base that the file declares for
// windows, or freq_base_default. Errors: kUnsupported (windowed layers have heads of another length
// than ReadWindowHeads has read, or than other layers). REQUIRES: ReadRope was called.
Status ReadWindowRope(const ConfigReader& reader, float freq_base_default, float freq_scale,
                      ModelConfig& config);

// Errors: kUnsupported (attention is not causal).
Status RequireCausal(const ConfigReader& reader);

}  // namespace kvd
