// The units of work (WorkMeter) that tokenizers count, in addition to the bytes that they read.
#pragma once

#include <cstddef>

namespace kvd {

inline constexpr std::size_t kWordUnits = 16;
inline constexpr std::size_t kCharacterUnits = 8;
inline constexpr std::size_t kMatchUnits = 16;  // per match of a regular expression or of a token
inline constexpr std::size_t kNodeUnits = 4;    // per visited node of a trie

}  // namespace kvd
