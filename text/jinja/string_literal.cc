// Jinja2 first writes each character that is not ASCII as an escape and then resolves all escapes.
// So a backslash before such a character escapes the backslash of that escape.
#include "text/jinja/string_literal.h"

#include <array>
#include <cstdio>
#include <optional>

#include "base/utf8.h"
#include "text/characters.h"

namespace kvd::jinja {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<char> SimpleEscape(char letter) {
  switch (letter) {
    case '\\': return '\\';
    case '\'': return '\'';
    case '"': return '"';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'v': return '\v';
    default: return std::nullopt;
  }
}

// Reads the escapes of one literal. `at_` is behind the backslash of the present escape.
class Unescaper {
 public:
  explicit Unescaper(std::string_view literal) : literal_(literal) {}

  Result<std::string> Run() {
    while (at_ < literal_.size()) {
      const char c = literal_[at_];
      if (c != '\\' || at_ + 1 == literal_.size()) {
        text_ += c;
        ++at_;
        continue;
      }
      ++at_;
      KVD_CHECK_OK(ReadEscape());
    }
    return std::move(text_);
  }

 private:
  Status ReadEscape() {
    const char letter = literal_[at_];
    if (const std::optional<char> simple = SimpleEscape(letter)) {
      text_ += *simple;
      ++at_;
      return {};
    }
    if (letter == '\n') {
      ++at_;
      return {};
    }
    if (letter >= '0' && letter <= '7') return ReadOctal();
    if (letter == 'x') return ReadHex(2);
    if (letter == 'u') return ReadHex(4);
    if (letter == 'U') return ReadHex(8);
    if (letter == 'N') return Fail(Code::kUnsupported, "the escape \\N is not supported");
    text_ += '\\';
    if (static_cast<unsigned char>(letter) >= 0x80) {
      WriteEscaped();
    } else {
      text_ += letter;
      ++at_;
    }
    return {};
  }

  Status Append(std::uint32_t code_point) {
    if (code_point > 0x10ffff) return Fail(Code::kInvalidArgument, "illegal Unicode character");
    if (code_point >= 0xd800 && code_point < 0xe000) {
      return Fail(Code::kUnsupported, "a surrogate in a string is not supported");
    }
    AppendUtf8(code_point, text_);
    return {};
  }

  Status ReadOctal() {
    std::uint32_t code_point = 0;
    for (int i = 0; i < 3 && at_ < literal_.size(); ++i, ++at_) {
      const char c = literal_[at_];
      if (c < '0' || c > '7') break;
      code_point = code_point * 8 + static_cast<std::uint32_t>(c - '0');
    }
    return Append(code_point);
  }

  Status ReadHex(std::size_t digit_count) {
    std::uint32_t code_point = 0;
    for (std::size_t i = 1; i <= digit_count; ++i) {
      const int digit = at_ + i < literal_.size() ? HexValue(literal_[at_ + i]) : -1;
      if (digit < 0) return Fail(Code::kInvalidArgument, "truncated \\", literal_[at_], " escape");
      code_point = code_point * 16 + static_cast<std::uint32_t>(digit);
    }
    at_ += 1 + digit_count;
    return Append(code_point);
  }

  // Writes the name of the character that is not ASCII, without its backslash.
  void WriteEscaped() {
    const std::string_view rest = literal_.substr(at_);
    const std::string_view character = rest.substr(0, CharacterBytes(rest));
    const auto code_point = static_cast<unsigned>(CharacterOf(character));
    const char* const format = code_point < 0x100     ? "x%02x"
                               : code_point < 0x10000 ? "u%04x"
                                                      : "U%08x";
    std::array<char, 16> name;
    std::snprintf(name.data(), name.size(), format, code_point);
    text_ += name.data();
    at_ += character.size();
  }

  std::string_view literal_;
  std::size_t at_ = 0;
  std::string text_;
};

}  // namespace

Result<std::string> UnescapeString(std::string_view literal) { return Unescaper(literal).Run(); }

}  // namespace kvd::jinja
