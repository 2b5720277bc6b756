#include "text/tool_calls/call_reader.h"

#include <algorithm>

namespace kvd {

bool IsFunctionName(std::string_view name) {
  constexpr std::size_t kBytesMax = 256;
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) > 127 ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kBytesMax && std::ranges::all_of(name, is_allowed);
}

int LiteralChoice::Take(char c) {
  if (text_.empty() && IsJsonSpace(c)) return kMore;
  text_ += c;
  int result = kFail;
  for (std::size_t i = 0; i < literals_.size(); ++i) {
    if (!literals_[i].starts_with(text_)) continue;
    if (literals_[i].size() == text_.size()) return static_cast<int>(i);
    result = kMore;
  }
  return result;
}

JsonScanner::Step ArgumentsReader::Take(char c, CallOutput& output) {
  const JsonScanner::Step step = scanner_.Take(c);
  if (step == JsonScanner::Step::kFail) return step;
  std::string json;
  if (scanner_.in_string() && static_cast<unsigned char>(c) < 0x20) {
    AppendEscaped(c, json);
  } else {
    json = c;
  }
  output.AddArguments(json);
  return step;
}

}  // namespace kvd
