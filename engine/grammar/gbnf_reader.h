// GbnfReader: the characters, names and numbers of a grammar's text, and errors that name their
// place.
//
// Owner: a GbnfParser, for one Parse. The text must outlive the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {

class GbnfReader {
 public:
  explicit GbnfReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return offset_ == text_.size(); }
  // The next byte; 0 at the end.
  char Peek() const { return AtEnd() ? '\0' : text_[offset_]; }
  char PeekAfter() const { return offset_ + 1 < text_.size() ? text_[offset_ + 1] : '\0'; }
  void Skip(std::size_t bytes = 1) { offset_ += bytes; }
  // Skips the next bytes if they are `word`.
  bool Take(std::string_view word);
  // Skips blanks, tabs and comments, and with `newlines` also line ends.
  void SkipSpace(bool newlines);

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || IsDigit(c);
  }
  // Errors: kInvalidArgument: no name follows.
  Result<std::string_view> Name();
  // Errors: kInvalidArgument: no number follows, or the number is above `limit`.
  Result<std::uint32_t> Number(std::string_view what, std::uint32_t limit);
  // Returns the code point of a character or an escape of a literal or class, which may be any
  // number of 32 bits. Errors: kInvalidArgument: an unknown or incomplete escape, invalid UTF-8,
  // the end of the text.
  Result<std::uint32_t> Character();
  // Returns the bytes up to and including the next `last`. Errors: kInvalidArgument: none follows.
  Result<std::string_view> Until(char last);

  std::size_t offset() const { return offset_; }
  // kInvalidArgument, "grammar: line L, column C: MESSAGE" for a place in the text. A column is a
  // character.
  std::unexpected<Error> FailAt(std::size_t offset, std::string_view message) const;
  std::unexpected<Error> FailHere(std::string_view message) const {
    return FailAt(offset_, message);
  }
  // As FailHere, with "expected WHAT, found ...".
  std::unexpected<Error> FailExpected(std::string_view what) const;

 private:
  Result<std::uint32_t> Hex(std::size_t digits);

  std::string_view text_;
  std::size_t offset_ = 0;
};

}  // namespace kvd
