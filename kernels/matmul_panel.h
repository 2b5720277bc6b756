// How much of the weights a wide product decodes at a time, and the workspace that takes.
//
// A product of many rows decodes a panel of weight rows to f32 once and multiplies every row of x by it. The panel should
// be large, since each row of x is read again per panel, and yet stay in the second-level cache.
#pragma once

#include <cstddef>

namespace kvd::kernels {

inline constexpr std::size_t kPanelFloatsMax = 128 * 1024;  // 512 KiB of a cache of 1 MiB or more
inline constexpr std::size_t kPanelOutputsMax = 64;
inline constexpr std::size_t kPanelOutputsMin = 4;
// Elements of a row that a tile walks before the next tile, so that its rows of x stay in the first-level cache. A
// multiple of 16; the partial sums wait in the workspace meanwhile.
inline constexpr std::size_t kTileElements = 1024;
inline constexpr std::size_t kTileRowsMax = 6;
inline constexpr std::size_t kPanelSumFloats = kTileRowsMax * kPanelOutputsMax * 16;

// Weight rows of a panel: a multiple of 4, in [kPanelOutputsMin, kPanelOutputsMax].
std::size_t PanelOutputs(std::size_t in_features);

}  // namespace kvd::kernels
