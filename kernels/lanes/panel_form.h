// What a tile of a product needs to know about a weight type whose elements a panel has already
// unpacked. Weight types of the same form share the code of their tiles, which takes most of the
// time of compiling products of many rows.
#pragma once

#include "kernels/lanes/quant_rows.h"

namespace kvd::kernels {

// The constants are those of a reader (quads.h of each set); with kHasHalfMinimumsOfForm, the type
// has a minimum for each half of a block.
template <int kOffsetOfForm, int kBitsOfForm, bool kSignedForm, bool kMinimumsOfForm,
          bool kHalvesOfForm, bool kHasHalfMinimumsOfForm>
struct PanelForm {
  static constexpr int kOffset = kOffsetOfForm, kBits = kBitsOfForm;
  static constexpr bool kSigned = kSignedForm, kMinimums = kMinimumsOfForm;
  static constexpr bool kHalves = kHalvesOfForm;
};

template <int kOffset, int kBits, bool kSigned, bool kMinimums, bool kHalves, bool kHasThem>
inline constexpr bool
    kHasHalfMinimums<PanelForm<kOffset, kBits, kSigned, kMinimums, kHalves, kHasThem>> = kHasThem;

}  // namespace kvd::kernels
