// Errors about states of llama.cpp.
#pragma once

#include <string_view>

#include "base/error.h"

namespace kvd {

inline std::unexpected<Error> FailLlamaState(Code code, std::string_view why) {
  return Fail(code, "llama.cpp state: ", why);
}
inline std::unexpected<Error> InvalidLlamaState(std::string_view why) {
  return FailLlamaState(Code::kInvalidArgument, why);
}

}  // namespace kvd
