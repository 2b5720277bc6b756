#include "state_layout/cached_rows.h"

#include "base/text.h"
#include "kernels/scalar/functions.h"

namespace kvd {

void DecodeRows(kernels::DataType type, const std::byte* rows, float* floats,
                std::size_t element_count) {
  kernels::scalar::DecodeRow(type, rows, floats, element_count);
}

bool EncodeRows(kernels::DataType type, const float* floats, std::byte* rows,
                std::size_t element_count) {
  return kernels::scalar::EncodeRow(type, floats, rows, element_count);
}

std::string PlaneText(const CachePlane& plane) {
  return Concat((plane.side == CacheSide::kKeys ? "keys of layer " : "values of layer "),
                plane.layer);
}

Status CheckRowType(const CachePlane& plane, kernels::DataType type) {
  if (!IsRowType(type)) {
    return Fail(Code::kUnsupported, PlaneText(plane), ": ", kernels::DataTypeName(type),
                "; f32, f16, bf16, q8_0 and q4_0 can be saved");
  }
  if (plane.dim % kernels::ElementsPerBlock(type) == 0) return {};
  return Fail(Code::kUnsupported, PlaneText(plane), ": ", kernels::DataTypeName(type), " packs ",
              kernels::ElementsPerBlock(type),
              " elements of a head together, this model's heads have ", plane.dim);
}

}  // namespace kvd
