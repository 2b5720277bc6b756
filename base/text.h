// Texts for messages and for fields of fixed length.
//
// Concat concatenates texts and numbers: Concat("cells: ", needed, " needed, ", free, " free").
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace kvd {

// One argument of Concat or Fail: a text, a character or a number. A TextArgument refers to its
// text and does not copy the text. Integers are formatted as decimal numbers, doubles with six
// decimals.
class TextArgument {
 public:
  TextArgument(std::string_view text) : view_(text) {}
  TextArgument(const char* text) : view_(text) {}
  TextArgument(const std::string& text) : view_(text) {}
  TextArgument(char character) : digits_{character}, view_(digits_, 1) {}
  TextArgument(bool) = delete;
  template <std::integral Number>
  TextArgument(Number number)
      : view_(digits_,
              static_cast<std::size_t>(
                  std::to_chars(digits_, digits_ + sizeof digits_, number).ptr - digits_)) {}
  TextArgument(double number) : long_text_(std::to_string(number)), view_(long_text_) {}
  TextArgument(const TextArgument&) = delete;
  TextArgument& operator=(const TextArgument&) = delete;

  std::string_view view() const { return view_; }

 private:
  char digits_[24];
  std::string long_text_;
  std::string_view view_;
};

std::string ConcatParts(std::initializer_list<TextArgument> parts);

template <class... Parts>
std::string Concat(const Parts&... parts) {
  return ConcatParts({TextArgument(parts)...});
}

// Returns the permission bits of a file's mode as four octal digits: "0700".
std::string OctalMode(std::uint32_t mode);

// Copies a text with a terminating zero, and truncates a text for which the field is too small. The
// bytes of the field behind the zero are kept.
template <std::size_t kBytes>
void CopyText(std::string_view text, char (&field)[kBytes]) {
  field[text.copy(field, kBytes - 1)] = '\0';
}

}  // namespace kvd
