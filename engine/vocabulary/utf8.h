// UTF-8 as the tokenizers need it: what is well formed, what could still become so, and a
// well-formed stand-in for what is neither. Pure functions, any thread. "Well formed" is the
// Unicode Standard's table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvd {

// Bytes of the well-formed character at the start of `text`; 0 where there is none.
std::size_t WellFormedBytes(std::string_view text);

// Bytes (0 to 3) at the end of `text` that begin a character which further bytes could complete.
std::size_t IncompleteTailBytes(std::string_view text);

// Bytes that the lead byte announces, by its high bits alone; 1 for anything that is no lead byte.
std::size_t AnnouncedBytes(char lead);

// REQUIRES: `character` is one well-formed character.
std::uint32_t CodePointOf(std::string_view character);

// Appends the character `code_point`. REQUIRES: code_point is at most U+10FFFF.
void AppendUtf8(std::uint32_t code_point, std::string& text);

// A view of `text` in which each byte that is part of no well-formed character is replaced by
// U+FFFD, so that regular expressions can run over it, with the way back to the original offsets. A
// well-formed text is not copied and must outlive the object.
class WellFormedText {
 public:
  explicit WellFormedText(std::string_view text);
  WellFormedText(const WellFormedText&) = delete;
  WellFormedText& operator=(const WellFormedText&) = delete;

  std::string_view view() const { return view_; }
  // The offset in the original text of the character boundary at `offset` of the view.
  std::size_t OriginalOffset(std::size_t offset) const;

 private:
  std::string storage_;                    // empty when the text is well formed
  std::vector<std::size_t> replacements_;  // ascending offsets in storage_
  std::string_view view_;
};

}  // namespace kvd
