// WellFormedText is a view of any bytes as well-formed UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvd {

// A view of `text` in which each byte that is not part of a well-formed character is replaced by
// U+FFFD, so that regular expressions can run over it, with a mapping back to the original offsets.
// A text that is already well formed is not copied. The text must outlive the object.
class WellFormedText {
 public:
  explicit WellFormedText(std::string_view text);
  WellFormedText(const WellFormedText&) = delete;
  WellFormedText& operator=(const WellFormedText&) = delete;

  std::string_view view() const { return view_; }
  // The offset in the original text of the character boundary at `offset` in the view.
  std::size_t OriginalOffset(std::size_t offset) const;

 private:
  std::string storage_;                    // empty when the text is well formed
  std::vector<std::size_t> replacements_;  // ascending offsets in storage_
  std::string_view view_;
};

}  // namespace kvd
