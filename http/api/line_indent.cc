#include "http/api/line_indent.h"

namespace kvd::http {

std::size_t LineIndent::Take(const std::string& text) {
  if (spaces_ == 0) return text.size();
  for (std::size_t i = 0; i < text.size() && !is_over_; ++i) {
    const char c = text[i];
    if (c == '\n') {
      is_at_start_ = true;
      seen_ = 0;
    } else if (is_at_start_ && (c == ' ' || c == '\t')) {
      ++seen_;
    } else if (is_at_start_) {
      is_at_start_ = false;
      if (seen_ >= spaces_) continue;
      is_over_ = true;
      return i;
    }
  }
  return is_over_ ? 0 : text.size();
}

}  // namespace kvd::http
