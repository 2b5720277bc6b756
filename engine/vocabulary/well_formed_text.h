// WellFormedText is a view of any bytes as well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
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

// The characters with Unicode's property White_Space.
inline bool IsUnicodeWhiteSpace(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace kvd
