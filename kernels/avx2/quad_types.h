// Maps every quantised weight type to its reader; kernels/lanes/dispatch.h selects a reader by
// these names.
#pragma once

#include "kernels/avx2/grid_quads.h"
#include "kernels/avx2/half_part_quads.h"
#include "kernels/avx2/quads.h"
#include "kernels/avx2/table_quads.h"

namespace kvd::kernels::avx2 {

struct QuadTypes {
  using Lanes = avx2::Lanes;
  using Quad = avx2::Quad;
  using Sums = avx2::Sums;
  using QuadsQ4_0 = QuadQ4_0;
  using QuadsQ4_1 = QuadQ4_1;
  using QuadsQ5_0 = QuadQ5_0;
  using QuadsQ5_1 = QuadQ5_1;
  using QuadsQ8_0 = QuadQ8_0;
  using QuadsQ2_K = QuadQ2_K;
  using QuadsQ3_K = QuadQ3_K;
  using QuadsQ4_K = QuadQ4_K;
  using QuadsQ5_K = QuadQ5_K;
  using QuadsQ6_K = QuadQ6_K;
  template <DataType kType, class Block>
  using QuadsInGrid = QuadInGrid<kType, Block>;
  using QuadsIQ4_NL = QuadIQ4_NL;
  using QuadsIQ4_XS = QuadIQ4_XS;
  using QuadsMXFP4 = QuadMXFP4;
  static constexpr int kQuantTileRows = 2;
};

}  // namespace kvd::kernels::avx2
