// Regular expressions of ECMA-262, as JSON Schema's `pattern` has them, as a syntax tree.
//
// Supported: characters, ".", classes, the escapes \d \D \w \W \s \S \t \n \r \f \v \0 \cX \xHH
// \uHHHH \u{H...} and escaped punctuation, groups (also named ones), "|", quantifiers (greedy and
// lazy have the same language), and the anchors ^ and $ at the ends of the expression or of
// alternatives there. Not supported: lookahead and lookbehind, back references, \b, \B, \p{...} and
// anchors elsewhere. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/schema/code_point_set.h"

namespace kvd::schema {

struct RegexNode {
  enum class Kind : std::uint8_t {
    kSet,          // one character of `set`
    kSequence,     // all children in this order; none: the empty text
    kAlternation,  // one of the children; none: no text
    kRepeat,       // the only child, `min` to `max` times
    kStart,        // "^": only before WholeText
    kEnd,          // "$": only before WholeText
  };

  Kind kind = Kind::kSequence;
  CodePointSet set;
  std::vector<RegexNode> children;
  std::uint32_t min = 0;
  std::optional<std::uint32_t> max;  // none: no limit
};

struct RegexLimits {
  std::uint32_t depth_max = 64;         // groups inside each other
  std::uint32_t repeat_max = 100'000;   // of a quantifier's number
  std::size_t pattern_bytes = 1 << 16;  // of one expression
};

// Returns the set of texts in which `pattern` matches somewhere: anchors are resolved, and
// `.kind` is never kStart or kEnd. Errors: kInvalidArgument: the pattern is no expression;
// kUnsupported: a part that no grammar expresses, or a limit; both name the part and its offset.
Result<RegexNode> ParsePattern(std::string_view pattern, const RegexLimits& limits = {});

// The set that contains exactly `text`, which is valid UTF-8.
RegexNode ExactText(std::string_view text);

// The least and the greatest number of characters of the texts; none: no limit.
std::uint64_t LengthMin(const RegexNode& node);
std::optional<std::uint64_t> LengthMax(const RegexNode& node);

// Turns an expression that is searched in a text into the set of whole texts that it finds.

// Resolves the anchors: where an end of the expression has none, any text may precede or follow.
// Errors: kUnsupported: an anchor that is not at an end of the expression.
Result<RegexNode> WholeText(RegexNode node);

}  // namespace kvd::schema
