// StopMatcher: finds stop strings in text that arrives in pieces, and returns the text that may
// already be shown.
//
// Text is held back while its end may be the beginning of a stop string. The result does not depend
// on how the text is cut into pieces. The text ends at the first byte that completes a stop. If
// several stops are complete at that byte, the longest one is removed from the text.
//
// One request owns a StopMatcher. A StopMatcher is not thread-safe. The work per byte is
// proportional to the number of stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvd {

class StopMatcher {
 public:
  // Stops are compared byte by byte. An empty list is allowed; no text is held back then. Errors:
  // kInvalidArgument (more than wire::kStopsMax stops, or a stop that is empty or longer than
  // wire::kStopBytesMax).
  static Result<StopMatcher> Create(std::vector<std::string> stops);

  // Takes the next piece and returns the text that may be shown. Feed returns an empty text after a
  // stop has matched. The view is valid until the next call.
  std::string_view Feed(std::string_view piece);

  // Ends the text and returns the text that is still held back, or nothing if a stop matched. The
  // view is valid until the next call.
  std::string_view Flush();

  // Index of the stop that ended the text; nullopt: no stop has ended the text.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  // One stop as a Knuth-Morris-Pratt automaton.
  struct Stop {
    std::string text;
    // [i]: length of the longest proper prefix of text[0..i] that is also its suffix.
    std::vector<std::uint32_t> border_bytes;
    // Length of the longest prefix of `text` with which the fed text ends.
    std::uint32_t matched_bytes = 0;
  };
  explicit StopMatcher(std::vector<Stop> stops) : stops_(std::move(stops)) {}
  static void Advance(Stop& stop, char next);

  std::vector<Stop> stops_;
  std::string text_;  // the shown_bytes_ bytes that the last call returned, then the held-back text
  std::size_t shown_bytes_ = 0;
  std::optional<std::size_t> matched_;
};

}  // namespace kvd
