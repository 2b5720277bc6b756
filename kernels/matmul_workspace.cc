#include <algorithm>

#include "kernels/kernel_table.h"
#include "kernels/panels.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {

std::size_t MatmulWorkspaceFloats(std::size_t in_features, std::size_t row_count) {
  const std::size_t panel_elements = std::min(kPanelElements, (in_features + 15) / 16 * 16);
  // Partial sums of one tile if the elements fit one panel, else of all tiles of a pass, of which
  // the last may have fewer rows.
  const std::size_t sum_rows =
      in_features <= kPanelElements ? kTileRowsMax : std::min(row_count, kPassRows) + kTileRowsMax;
  const std::size_t plain = kPanelOutputs * (panel_elements + sum_rows * 16);
  const std::size_t panel_bytes =
      std::max({QuantPanelBytes(in_features / kQuantizedBlock), Bf16WorkspaceBytes(in_features),
                Bf16TileWorkspaceBytes(row_count)});
  const std::size_t outer = kOuterOutputs * std::min(kOuterElements, in_features);
  return std::max({plain, outer, panel_bytes / sizeof(float)});
}

}  // namespace kvd::kernels
