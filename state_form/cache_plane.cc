#include "state_form/cache_plane.h"

namespace kvd {

std::string PlaneText(const CachePlane& plane) {
  return (plane.side == CacheSide::kKeys ? "keys of layer " : "values of layer ") +
         std::to_string(plane.layer);
}

Status CheckRowType(const CachePlane& plane, kernels::DataType type) {
  if (!IsRowType(type)) {
    return Fail(Code::kUnsupported, PlaneText(plane) + ": " + kernels::DataTypeName(type) +
                                        "; f32, f16, bf16 and q8_0 can be saved");
  }
  if (plane.dim % kernels::ElementsPerBlock(type) == 0) return {};
  return Fail(Code::kUnsupported, PlaneText(plane) + ": " + kernels::DataTypeName(type) +
                                      " packs " + std::to_string(kernels::ElementsPerBlock(type)) +
                                      " elements of a head together, this model's heads have " +
                                      std::to_string(plane.dim));
}

}  // namespace kvd
