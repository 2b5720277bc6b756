// The error of a field that is out of its range.
#pragma once

#include <string_view>

#include "base/error.h"

namespace kvd::wire {

// "FIELD: SENTENCE", kInvalidArgument.
inline std::unexpected<Error> BadField(std::string_view field, std::string_view sentence) {
  return Fail(Code::kInvalidArgument, field, ": ", sentence);
}

}  // namespace kvd::wire
