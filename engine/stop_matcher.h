// Finds stop strings in text that arrives in pieces, and says how much of it may be shown already.
//
// Text whose end might be the beginning of a stop string is held back until the next pieces decide.
// The result does not depend on how the text was cut into pieces: the first byte at which any stop
// is complete ends the text, and of the stops complete there the longest is cut off.
//
// Owner: one request. Not thread-safe. Work per byte is proportional to the number of stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shm/error.h"

namespace kvd {

class StopMatcher {
 public:
  // Bytes are compared as they are. Errors (kInvalidArgument): more than wire::kStopsMax stops; one
  // that is empty or longer than wire::kStopBytesMax. None at all is allowed: nothing is held back.
  static Result<StopMatcher> Create(std::vector<std::string> stops);

  // Takes the next piece and returns the text that may be shown now. Once a stop has matched
  // everything is swallowed. The view is valid until the next call.
  std::string_view Feed(std::string_view piece);

  // No more text comes: returns what was still held back; nothing if a stop matched. The view is
  // valid until the next call.
  std::string_view Flush();

  // Index of the stop that ended the text.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  // One stop as a Knuth-Morris-Pratt automaton.
  struct Stop {
    std::string text;
    std::vector<std::uint32_t>
        border_bytes;  // [i]: longest proper prefix of text[0..i] that is also its suffix
    std::uint32_t matched_bytes = 0;  // longest prefix of `text` that the fed text ends with
  };
  explicit StopMatcher(std::vector<Stop> stops) : stops_(std::move(stops)) {}
  static void Advance(Stop& stop, char next);

  std::vector<Stop> stops_;
  std::string text_;  // shown_bytes_ returned by the last call, then what is held back
  std::size_t shown_bytes_ = 0;
  std::optional<std::size_t> matched_;
};

}  // namespace kvd
