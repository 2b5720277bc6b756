// There is one Knuth-Morris-Pratt automaton per stop. The state of a stop's automaton is the length
// of the longest prefix of the stop with which the text ends. The number of bytes that are held
// back is the largest state of all automata, so a stop that becomes complete is always entirely in
// the held-back text.
#include "engine/sampling/stop_matcher.h"

#include <algorithm>

#include "shm/wire_generate.h"

namespace kvd {
namespace {

// The failure function of the Knuth-Morris-Pratt automaton for `text`.
std::vector<std::uint32_t> Borders(std::string_view text) {
  std::vector<std::uint32_t> border_bytes(text.size(), 0);
  std::uint32_t border = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = border_bytes[border - 1];
    if (text[i] == text[border]) ++border;
    border_bytes[i] = border;
  }
  return border_bytes;
}

}  // namespace

Result<StopMatcher> StopMatcher::Create(std::vector<std::string> stops) {
  if (stops.size() > wire::kStopsMax)
    return Fail(Code::kInvalidArgument, "stop strings: ", stops.size(), " given, at most ",
                wire::kStopsMax);
  std::vector<Stop> automata;
  automata.reserve(stops.size());
  for (std::string& text : stops) {
    if (text.empty() || text.size() > wire::kStopBytesMax)
      return Fail(Code::kInvalidArgument, "stop string ", automata.size(), ": ", text.size(),
                  " bytes given, must be 1 to ", wire::kStopBytesMax);
    std::vector<std::uint32_t> border_bytes = Borders(text);
    automata.push_back({std::move(text), std::move(border_bytes)});
  }
  return StopMatcher(std::move(automata));
}

// Advance is not called for a stop that is complete, because the text ends at a complete stop.
void StopMatcher::Advance(Stop& stop, char next) {
  while (stop.matched_bytes > 0 && next != stop.text[stop.matched_bytes])
    stop.matched_bytes = stop.border_bytes[stop.matched_bytes - 1];
  if (next == stop.text[stop.matched_bytes]) ++stop.matched_bytes;
}

std::string_view StopMatcher::Feed(std::string_view piece) {
  text_.erase(0, shown_bytes_);
  shown_bytes_ = 0;
  if (matched_) return {};
  const std::size_t old_bytes = text_.size();
  text_.append(piece);
  for (std::size_t i = old_bytes; i < text_.size(); ++i) {
    for (std::size_t s = 0; s < stops_.size(); ++s) {
      Advance(stops_[s], text_[i]);
      const bool complete = stops_[s].matched_bytes == stops_[s].text.size();
      if (complete && (!matched_ || stops_[s].text.size() > stops_[*matched_].text.size()))
        matched_ = s;
    }
    if (matched_) {
      text_.resize(i + 1 - stops_[*matched_].text.size());
      shown_bytes_ = text_.size();
      return text_;
    }
  }
  std::size_t held_bytes = 0;
  for (const Stop& stop : stops_)
    held_bytes = std::max<std::size_t>(held_bytes, stop.matched_bytes);
  shown_bytes_ = text_.size() - held_bytes;
  return std::string_view(text_).substr(0, shown_bytes_);
}

std::string_view StopMatcher::Flush() {
  text_.erase(0, shown_bytes_);
  shown_bytes_ = text_.size();
  for (Stop& stop : stops_) stop.matched_bytes = 0;
  return text_;
}

}  // namespace kvd
