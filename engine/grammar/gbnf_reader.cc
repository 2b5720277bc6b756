#include "engine/grammar/gbnf_reader.h"

#include "base/text.h"
#include "base/utf8.h"

namespace kvd {

bool GbnfReader::Take(std::string_view word) {
  if (!text_.substr(offset_).starts_with(word)) return false;
  offset_ += word.size();
  return true;
}

void GbnfReader::SkipSpace(bool newlines) {
  for (; !AtEnd(); Skip()) {
    if (Peek() == '#')
      while (!AtEnd() && Peek() != '\r' && Peek() != '\n') Skip();
    const char c = Peek();
    if (c == ' ' || c == '\t') continue;
    if (newlines && (c == '\r' || c == '\n')) continue;
    return;
  }
}

Result<std::string_view> GbnfReader::Name() {
  const std::size_t begin = offset_;
  while (!AtEnd() && IsNameCharacter(Peek())) Skip();
  if (offset_ == begin) return FailExpected("a rule's name");
  return text_.substr(begin, offset_ - begin);
}

Result<std::uint32_t> GbnfReader::Number(std::string_view what, std::uint32_t limit) {
  if (!IsDigit(Peek())) return FailExpected(what);
  const std::size_t begin = offset_;
  std::uint64_t number = 0;
  for (; !AtEnd() && IsDigit(Peek()); Skip()) {
    number = number * 10 + static_cast<std::uint64_t>(Peek() - '0');
    if (number > limit) return FailAt(begin, Concat(what, ": the limit is ", limit));
  }
  return static_cast<std::uint32_t>(number);
}

Result<std::uint32_t> GbnfReader::Hex(std::size_t digits) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < digits; ++i, Skip()) {
    const char c = Peek();
    std::uint32_t digit = 0;
    if (IsDigit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return FailExpected(Concat(digits, " hexadecimal digits"));
    }
    number = (number << 4) | digit;
  }
  return number;
}

Result<std::uint32_t> GbnfReader::Character() {
  if (AtEnd()) return FailExpected("a character");
  if (Peek() != '\\') {
    const std::string_view rest = text_.substr(offset_);
    const std::size_t bytes = WellFormedBytes(rest);
    if (bytes == 0) return FailHere("the text is not valid UTF-8");
    Skip(bytes);
    return CodePointOf(rest.substr(0, bytes));
  }
  const char escape = PeekAfter();
  const auto simple = [this](char c) -> std::uint32_t {
    Skip(2);
    return static_cast<unsigned char>(c);
  };
  switch (escape) {
    case 'x': Skip(2); return Hex(2);
    case 'u': Skip(2); return Hex(4);
    case 'U': Skip(2); return Hex(8);
    case 't': return simple('\t');
    case 'r': return simple('\r');
    case 'n': return simple('\n');
    case '\\':
    case '"':
    case '[':
    case ']': return simple(escape);
    default: break;
  }
  return FailHere("unknown escape; the escapes are \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\]");
}

Result<std::string_view> GbnfReader::Until(char last) {
  const std::size_t end = text_.find(last, offset_);
  if (end == std::string_view::npos) return FailHere(Concat("'", last, "' is missing"));
  const std::string_view found = text_.substr(offset_, end + 1 - offset_);
  offset_ = end + 1;
  return found;
}

std::unexpected<Error> GbnfReader::FailAt(std::size_t offset, std::string_view message) const {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text_.substr(0, offset)) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++column;
    }
  }
  return Fail(Code::kInvalidArgument, "grammar: line ", line, ", column ", column, ": ", message);
}

std::unexpected<Error> GbnfReader::FailExpected(std::string_view what) const {
  if (AtEnd()) return FailHere(Concat("expected ", what, ", found the end"));
  const char c = Peek();
  if (c == '\n' || c == '\r') return FailHere(Concat("expected ", what, ", found a line end"));
  if (c > ' ' && c < 0x7f) return FailHere(Concat("expected ", what, ", found '", c, "'"));
  return FailHere(Concat("expected ", what, ", found the byte ", static_cast<unsigned char>(c)));
}

}  // namespace kvd
