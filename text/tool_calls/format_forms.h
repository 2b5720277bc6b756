// FormatForm: the markers of a format and the reader of its calls.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/tool_format.h"

namespace kvd {

// White space between the content and the first call, which the template writes and which is not
// part of the content.
enum class CallGap : std::uint8_t { kNone, kLine, kSpace };

struct CallMarker {
  std::string_view text;
  // The marker counts only where nothing but white space and reasoning stands before it. Its bytes
  // also belong to the calls.
  bool is_first_byte = false;
};

struct FormatForm {
  std::vector<CallMarker> markers;
  CallGap gap = CallGap::kNone;
  // Calls inside of reasoning count, because models with this format call functions before they end
  // their reasoning. In other formats they are text of the reasoning.
  bool calls_in_reasoning = false;
};

// REQUIRES: not kHarmony, which has a parser of its own (harmony_parser.cc).
FormatForm FormOf(ToolFormat format);

// Returns the reader for what follows `marker`, one of the form's markers. `tools` outlives it.
std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, std::string_view marker,
                                           const ToolTable& tools);

// The forms that the grammar also needs. REQUIRES: a format of that kind.
TaggedCallForm TaggedFormOf(ToolFormat format);
NamedCallForm NamedFormOf(ToolFormat format);

}  // namespace kvd
