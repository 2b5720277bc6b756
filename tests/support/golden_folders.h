// Which folders of ../shared/golden are beyond this build.
#pragma once

#include <string_view>

namespace kvd::test {

// A model of the llama architecture with weight types or experts that are not supported yet.
inline bool IsBeyondThisBuild(std::string_view folder) {
  for (const char* const beginning :
       {"llama-iq", "llama-q2_K", "llama-q3_K", "llama-tq", "llama-mxfp4", "llama-moe"}) {
    if (folder.starts_with(beginning)) return true;
  }
  return false;
}

}  // namespace kvd::test
