// GrammarLimits: what one grammar may need at most. A grammar that needs more is refused by name
// when it is compiled; what depends on the generated text is bounded when it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd {

struct GrammarLimits {
  std::size_t text_bytes = 4u << 20;  // of the grammar's text
  std::size_t rules = 1u << 16;       // named rules, groups and repeated items
  // Characters of literals, ranges of classes, references, and ends of alternatives.
  std::size_t elements = 1u << 21;
  // Open rules of one stack. A transition to a deeper stack does not exist.
  std::uint32_t depth = 1024;
  // Frames that one transition may make or compare. A transition that needs more does not exist.
  std::size_t state_entries = 1u << 14;
  // Frames that all transitions of one mask may make or compare. A mask that needs more lacks the
  // tokens that were not examined.
  std::size_t mask_entries = 1u << 22;
  // States and masks that are held so that they need not be made again.
  std::size_t cache_bytes = 64u << 20;
};

}  // namespace kvd
