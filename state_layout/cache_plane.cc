#include "state_layout/cache_plane.h"
#include "base/text.h"

namespace kvd {

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
