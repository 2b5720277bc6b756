// SplitStage is one step of splitting a text into words (word_splitter.h): an expression, and what
// its matches become.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvd {

// What becomes of a match of a run of digits. Groups have three digits and are counted from the
// right; the first group of a run has one to three. No expression can form groups in linear work,
// because each group would look ahead to the end of the run.
enum class DigitCuts : std::uint8_t {
  kNone,          // the match is a piece, and so is the text between two matches
  kGroups,        // each group is a piece; the text before the run belongs to its first group
  kBeforeGroups,  // a piece ends before each group of three, and nowhere else
};

struct SplitStage {
  std::string_view expression;
  DigitCuts cuts = DigitCuts::kNone;
};

}  // namespace kvd
