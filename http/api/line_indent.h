// LineIndent: ends a text at the first line that is indented less than a number of spaces
// (llama-server's n_indent), so that the completion of a block of code ends with the block.
#pragma once

#include <cstdint>
#include <string>

namespace kvd::http {

class LineIndent {
 public:
  LineIndent() = default;
  // 0: no line ends the text.
  explicit LineIndent(std::uint32_t spaces) : spaces_(spaces) {}

  // Returns how much of the text, which continues the earlier ones, belongs to the result. The
  // first line of all has any indentation.
  std::size_t Take(const std::string& text);
  bool is_over() const { return is_over_; }

 private:
  std::uint32_t spaces_ = 0;
  bool is_at_start_ = false;  // of a line: only spaces came since its beginning
  std::uint32_t seen_ = 0;
  bool is_over_ = false;
};

}  // namespace kvd::http
