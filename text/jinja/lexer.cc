// The lexer alternates between text, which ends at the next "{{", "{%" or "{#", and the tokens of a
// tag. The end of a tag counts only outside brackets.
#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"
#include "text/characters.h"
#include "text/jinja/string_literal.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

struct Operator {
  std::string_view text;
  TokenKind kind;
};

// Longer operators come first.
constexpr std::array<Operator, 26> kOperators = {{
    {"//", TokenKind::kFloorDivide},
    {"**", TokenKind::kPower},
    {"==", TokenKind::kEqual},
    {"!=", TokenKind::kNotEqual},
    {">=", TokenKind::kGreaterEqual},
    {"<=", TokenKind::kLessEqual},
    {"+", TokenKind::kAdd},
    {"-", TokenKind::kSubtract},
    {"/", TokenKind::kDivide},
    {"*", TokenKind::kMultiply},
    {"%", TokenKind::kModulo},
    {"~", TokenKind::kTilde},
    {"[", TokenKind::kLeftBracket},
    {"]", TokenKind::kRightBracket},
    {"(", TokenKind::kLeftParenthesis},
    {")", TokenKind::kRightParenthesis},
    {"{", TokenKind::kLeftBrace},
    {"}", TokenKind::kRightBrace},
    {">", TokenKind::kGreater},
    {"<", TokenKind::kLess},
    {"=", TokenKind::kAssign},
    {".", TokenKind::kDot},
    {":", TokenKind::kColon},
    {"|", TokenKind::kPipe},
    {",", TokenKind::kComma},
    {";", TokenKind::kSemicolon},
}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Makes "\n" of every line end and drops the last one.
std::string NormalizeLines(std::string_view source) {
  std::string lines;
  lines.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      lines += source[i];
    } else {
      lines += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeLines(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) KVD_CHECK_OK(ReadText());
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool Sees(std::string_view text) const { return rest().starts_with(text); }

  // Returns the place of `offset`. REQUIRES: not before the offset of the previous call.
  Place PlaceAt(std::size_t offset) {
    for (; placed_ < offset; ++placed_) {
      if (source_[placed_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
    return place_;
  }
  template <class... Parts>
  std::unexpected<Error> FailHere(Code code, const Parts&... parts) {
    return Fail(code, AtPlace(PlaceAt(std::max(at_, placed_)), Concat(parts...)));
  }

  Token& Add(TokenKind kind) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.place = PlaceAt(std::max(at_, placed_));
    return token;
  }
  void AddData(std::size_t begin, std::string_view text) {
    if (text.empty()) return;
    Token& token = tokens_.emplace_back();
    token.kind = TokenKind::kData;
    token.place = PlaceAt(std::max(begin, placed_));
    token.text = text;
  }

  void SkipSpace() { at_ = source_.size() - TrimLeft(rest()).size(); }

  // Applies the sign at the beginning of a tag to the text before the tag.
  std::string_view WithoutSpaceBefore(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return TrimRight(text);
    if (sign == '+' || is_print) return text;
    const std::size_t line_begin = text.rfind('\n') + 1;
    const bool begins_line = line_begin > 0 || is_line_start_;
    return begins_line && TrimLeft(text.substr(line_begin)).empty() ? text.substr(0, line_begin)
                                                                    : text;
  }

  // Reads text up to the next tag, and the tag.
  Status ReadText() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && !Sees("{{") && !Sees("{%") && !Sees("{#")) {
      at_ = std::min(source_.find('{', at_ + 1), source_.size());
    }
    const std::string_view text = std::string_view(source_).substr(begin, at_ - begin);
    if (at_ == source_.size()) {
      AddData(begin, text);
      return {};
    }
    const std::size_t tag_at = at_;
    const char kind = source_[at_ + 1];
    at_ += 2;
    char sign = ' ';
    if (Sees("-") || Sees("+")) sign = source_[at_++];
    AddData(begin, WithoutSpaceBefore(text, sign, kind == '{'));
    is_line_start_ = false;
    if (kind == '#') return SkipComment(tag_at);
    if (kind == '%' && SkipRawBegin()) return ReadRaw(tag_at);
    tokens_.emplace_back().kind = kind == '{' ? TokenKind::kPrintBegin : TokenKind::kTagBegin;
    tokens_.back().place = PlaceAt(std::max(tag_at, placed_));
    return ReadTag(kind == '{');
  }

  // Moves past the end of a tag that begins here: "+%}", "-%}" and the space after it, or "%}" and
  // the line end after it. Returns false if none begins here.
  bool SkipEnd(std::string_view end, bool trims_line, bool takes_plus) {
    if (takes_plus && Sees("+") && rest().substr(1).starts_with(end)) {
      at_ += 1 + end.size();
    } else if (Sees("-") && rest().substr(1).starts_with(end)) {
      at_ += 1 + end.size();
      SkipSpace();
    } else if (Sees(end)) {
      at_ += end.size();
      if (trims_line && Sees("\n")) ++at_;
    } else {
      return false;
    }
    is_line_start_ = source_[at_ - 1] == '\n';
    return true;
  }

  Status SkipComment(std::size_t tag_at) {
    if (at_ == source_.size()) return {};
    for (; at_ < source_.size(); ++at_) {
      if (SkipEnd("#}", true, true)) return {};
    }
    at_ = tag_at;
    return FailHere(Code::kInvalidArgument, "a comment has no end \"#}\"");
  }

  // Moves past "raw %}" if that follows.
  bool SkipRawBegin() {
    const std::size_t begin = at_;
    SkipSpace();
    if (Sees("raw")) {
      at_ += 3;
      SkipSpace();
      if (SkipEnd("%}", false, false)) return true;
    }
    at_ = begin;
    return false;
  }

  Status ReadRaw(std::size_t tag_at) {
    const std::size_t begin = at_;
    if (at_ == source_.size()) return {};
    for (std::size_t end = source_.find("{%", begin); end != std::string::npos;
         end = source_.find("{%", end + 1)) {
      at_ = end + 2;
      char sign = ' ';
      if (Sees("-") || Sees("+")) sign = source_[at_++];
      SkipSpace();
      if (!Sees("endraw")) continue;
      at_ += 6;
      SkipSpace();
      const bool was_line_start = is_line_start_;
      if (!SkipEnd("%}", true, true)) continue;
      const bool is_line_start = std::exchange(is_line_start_, was_line_start);
      const std::string_view text = std::string_view(source_).substr(begin, end - begin);
      AddData(begin, WithoutSpaceBefore(text, sign, false));
      is_line_start_ = is_line_start;
      return {};
    }
    at_ = tag_at;
    return FailHere(Code::kInvalidArgument, "{% raw %} has no {% endraw %}");
  }

  Status ReadTag(bool is_print) {
    brackets_.clear();
    while (at_ < source_.size()) {
      if (brackets_.empty()) {
        const std::size_t end_at = at_;
        const bool is_end = is_print ? SkipEnd("}}", false, false) : SkipEnd("%}", true, true);
        if (is_end) {
          tokens_.emplace_back().kind = is_print ? TokenKind::kPrintEnd : TokenKind::kTagEnd;
          tokens_.back().place = PlaceAt(std::max(end_at, placed_));
          return {};
        }
      }
      const std::size_t before = at_;
      SkipSpace();
      if (at_ != before) continue;
      KVD_CHECK_OK(ReadToken());
    }
    return {};
  }

  Status ReadToken() {
    const char first = source_[at_];
    if (IsDigit(first)) return ReadNumber();
    if (first == '\'' || first == '"') return ReadString();
    if (IsNameCharacter(first)) return ReadName();
    return ReadOperator();
  }

  static bool IsNameCharacter(char c) {
    return c == '_' || IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }

  Status ReadName() {
    std::size_t end = at_;
    while (end < source_.size() && IsNameCharacter(source_[end])) ++end;
    Add(TokenKind::kName).text = source_.substr(at_, end - at_);
    at_ = end;
    return {};
  }

  // Returns the end of the digits at `begin`; single underscores may separate them.
  template <class IsWanted>
  std::size_t EndOfDigits(std::size_t begin, const IsWanted& is_wanted) const {
    std::size_t end = begin;
    const auto is_at = [&](std::size_t at) {
      return at < source_.size() && is_wanted(source_[at]);
    };
    while (is_at(end) || (end > begin && is_at(end + 1) && source_[end] == '_')) ++end;
    return end;
  }

  // The end of the float that begins here; none if an integer begins here.
  std::optional<std::size_t> EndOfFloat() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return std::nullopt;
    std::size_t end = EndOfDigits(at_, IsDigit);
    bool is_float = false;
    if (end < source_.size() && source_[end] == '.') {
      const std::size_t fraction_end = EndOfDigits(end + 1, IsDigit);
      if (fraction_end > end + 1) {
        end = fraction_end;
        is_float = true;
      }
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      const std::size_t exponent_end = EndOfDigits(digits, IsDigit);
      if (exponent_end > digits) {
        end = exponent_end;
        is_float = true;
      }
    }
    return is_float ? std::optional(end) : std::nullopt;
  }

  Status ReadNumber() {
    const std::optional<std::size_t> float_end = EndOfFloat();
    int base = 10;
    std::size_t begin = at_, end = at_ + 1;
    if (float_end) {
      end = *float_end;
    } else if (source_[at_] == '0') {
      end = EndOfDigits(at_, [](char c) { return c == '0'; });
      const char letter = at_ + 1 < source_.size() ? source_[at_ + 1] : ' ';
      const auto try_base = [&](int wanted, char lower, const auto& is_wanted) {
        if ((letter | 0x20) != lower) return;
        std::size_t digits = at_ + 2;
        if (digits < source_.size() && source_[digits] == '_') ++digits;
        const std::size_t digits_end = EndOfDigits(digits, is_wanted);
        if (digits_end == digits) return;
        base = wanted;
        begin = at_ + 2;
        end = digits_end;
      };
      try_base(2, 'b', [](char c) { return c == '0' || c == '1'; });
      try_base(8, 'o', [](char c) { return c >= '0' && c <= '7'; });
      try_base(16, 'x', IsHexDigit);
    } else {
      end = EndOfDigits(at_, IsDigit);
    }
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    if (float_end) {
      Add(TokenKind::kFloat).real = ParseFloat(digits).value_or(0);
    } else {
      const std::optional<std::int64_t> integer = ParseInteger(digits, base);
      if (!integer) {
        return FailHere(Code::kUnsupported, "the integer ", digits, " exceeds 64 bits");
      }
      Add(TokenKind::kInteger).integer = *integer;
    }
    at_ = end;
    return {};
  }

  Status ReadString() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return FailHere(Code::kInvalidArgument, "a string has no end");
    const std::string_view literal = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    auto text = UnescapeString(literal);
    if (!text) return FailHere(text.error().code, text.error().message);
    Add(TokenKind::kString).text = std::move(*text);
    at_ = end + 1;
    return {};
  }

  Status ReadOperator() {
    const auto* const found =
        std::ranges::find_if(kOperators, [this](const Operator& op) { return Sees(op.text); });
    if (found == kOperators.end()) {
      return FailHere(Code::kInvalidArgument, "unexpected character '",
                      rest().substr(0, CharacterBytes(rest())), "'");
    }
    const char first = found->text[0];
    if (first == '(') brackets_ += ')';
    if (first == '[') brackets_ += ']';
    if (first == '{') brackets_ += '}';
    if (first == ')' || first == ']' || first == '}') {
      if (brackets_.empty()) return FailHere(Code::kInvalidArgument, "unexpected '", first, "'");
      if (brackets_.back() != first) {
        return FailHere(Code::kInvalidArgument, "unexpected '", first, "', expected '",
                        brackets_.back(), "'");
      }
      brackets_.pop_back();
    }
    Add(found->kind);
    at_ += found->text.size();
    return {};
  }

  const std::string source_;
  std::size_t at_ = 0;
  bool is_line_start_ = true;  // the previous tag ended with a line end, or there is none
  std::string brackets_;       // the closing brackets that are expected, innermost last
  std::size_t placed_ = 0;     // the offset of place_
  Place place_;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

std::string AtPlace(const Place& place, std::string_view problem) {
  return Concat("template line ", place.line, ", column ", place.column, ": ", problem);
}

}  // namespace kvd::jinja
